// SPDX-License-Identifier: Apache-2.0
// What anyop.torch calls, through ctypes, once it has defined the schemas.
#include <torch/library.h>
#include <torch/version.h>

#include <deque>
#include <map>
#include <memory>

#include "allocate.h"
#include "kernels.h"

namespace anyop::torch_host {
namespace {

torch::Library& LibraryOf(const std::string& name) {
  // Never destroyed: its end would take the operators back, when torch may be gone already.
  static auto& libraries = *new std::map<std::string, torch::Library>;
  const auto it = libraries.find(name);
  if (it != libraries.end()) return it->second;
  return libraries.try_emplace(name, torch::Library::IMPL, name, std::nullopt, __FILE__, __LINE__)
      .first->second;
}

template <class K>
void Implement(const TorchOperator& op, Variant variant, const char* name, c10::DispatchKey key) {
  auto function = torch::CppFunction::makeFromBoxedFunctor(std::make_unique<K>(&op, variant));
  LibraryOf(op.op->library).impl(name, torch::dispatch(key, std::move(function)));
}

void ImplementVariant(const TorchOperator& op, Variant variant, const char* name) {
  using Key = c10::DispatchKey;
  Implement<CpuKernel>(op, variant, name, Key::CPU);
  if (!op.facts.needs_tensor)
    Implement<CpuKernel>(op, variant, name, Key::CompositeExplicitAutograd);
  Implement<AutogradKernel>(op, variant, name, Key::Autograd);
  if (op.writes(variant)) Implement<BumpVersionsKernel>(op, variant, name, Key::ADInplaceOrView);
  if (variant == Variant::kFunctional && !op.facts.dtype_groups.empty()) {
    Implement<AutocastKernel>(op, variant, name, Key::AutocastCPU);
  }
  for (const Key key : {Key::SparseCPU, Key::SparseCsrCPU, Key::MkldnnCPU, Key::QuantizedCPU,
                        Key::NestedTensorCPU}) {
    Implement<WrongLayoutKernel>(op, variant, name, key);
  }
}

void RegisterOne(Operator& op) {
  static auto& operators = *new std::deque<TorchOperator>;  // kernels point into it
  const TorchOperator& made = operators.emplace_back(op);
  const std::string& name = op.contract->name;
  ImplementVariant(made, Variant::kFunctional, name.c_str());
  if (made.facts.has_out) ImplementVariant(made, Variant::kOut, (name + ".out").c_str());
  if (made.facts.has_in_place) ImplementVariant(made, Variant::kInPlace, (name + "_").c_str());
}

}  // namespace
}  // namespace anyop::torch_host

extern "C" {

// Implements the operators that were loaded since the last call, up to `n` of all: the schemas of
// those that another thread has loaded meanwhile are not defined yet. Null, or what went wrong.
ANYOP_EXPORT const char* anyop_torch_register_new(std::size_t n) {
  static std::size_t done = 0;  // Python's lock is held
  static auto& error = *new std::string;
  try {
    for (anyop::Operator* op : anyop::OperatorsFrom(done)) {
      if (done == n) break;
      ++done;
      anyop::torch_host::RegisterOne(*op);
    }
    return nullptr;
  } catch (const std::exception& e) {
    error = e.what();
    return error.c_str();
  }
}

ANYOP_EXPORT const char* anyop_torch_version() { return TORCH_VERSION; }

// What fresh results of direct calls are made with.
ANYOP_EXPORT const void* anyop_torch_empty() {
  return reinterpret_cast<const void*>(&anyop::torch_host::EmptyCpu);
}
}
