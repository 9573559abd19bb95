// SPDX-License-Identifier: Apache-2.0
#include <torch/library.h>

#include "devices/virtual/torch/boxed.h"
#include "devices/virtual/torch/library.h"
#include "devices/virtual/torch/table.h"
#include "register.h"

namespace virtual_torch {
namespace {

void Start(const char* path) {
  SetTable(&OpenLibrary(path));
  RegisterKernels();
  // For the process's life.
  auto& m = *new torch::Library(torch::Library::DEF, "anyop_npu", std::nullopt, __FILE__, __LINE__);
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
