// SPDX-License-Identifier: Apache-2.0
#include <ATen/record_function.h>
#include <dlfcn.h>
#include <torch/library.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "aclnn.h"
#include "devices/virtual/torch/boxed.h"
#include "devices/virtual/torch/library.h"
#include "devices/virtual/torch/table.h"
#include "register.h"

namespace virtual_torch {
namespace {

// The operator that each thread's program has called; it may call others.
thread_local std::string t_operator;
thread_local int t_depth = 0;

const char* NameOfOperator() { return t_operator.empty() ? nullptr : t_operator.c_str(); }

std::unique_ptr<at::ObserverContext> Enter(const at::RecordFunction& function) {
  if (t_depth++ == 0) t_operator = function.name();
  return nullptr;
}
void Leave(const at::RecordFunction&, at::ObserverContext*) { --t_depth; }

void SayNames(void* library) {
  const auto set =
      reinterpret_cast<void (*)(const char* (*)())>(dlsym(library, "anyop_npu_set_names"));
  if (set) set(&NameOfOperator);
  at::addGlobalCallback(
      at::RecordFunctionCallback(&Enter, &Leave).scopes({at::RecordScope::FUNCTION}));
}

void Start(const char* path) {
  SetTable(&OpenLibrary(path));
  void* const library = dlopen(path, RTLD_NOW);
  const char* const words = std::getenv("ANYOP_NPU");
  // Otherwise torch_npu's own kernels call aclnn for torch's operators too.
  if (!words || std::string_view(words).find("aclnn") == std::string_view::npos) RegisterKernels();
  RegisterFormats();
  ComputeAclnn(library);
  SayNames(library);
  // For the process's life.
  auto& m = *new torch::Library(torch::Library::DEF, "anyop_npu", std::nullopt, __FILE__, __LINE__);
  m.def("wrong_scripts() -> str", &WrongScripts);
  // The same bytes as elements of another type, for scripts.
  m.def("bits(Tensor x, ScalarType to) -> Tensor",
        [](const at::Tensor& x, at::ScalarType to) { return x.contiguous().view(to).clone(); });
  m.def("boxed_counts() -> (int, int)", [] {
    return std::tuple<std::int64_t, std::int64_t>(BoxedCounts().in_order, BoxedCounts().at_once);
  });
}

}  // namespace
}  // namespace virtual_torch

// "", or why not.
extern "C" __attribute__((visibility("default"))) const char* anyop_npu_torch_start(
    const char* path) {
  return virtual_torch::ErrorOf(&virtual_torch::Start, path);
}
