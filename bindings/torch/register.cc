// SPDX-License-Identifier: Apache-2.0
// What anyop.torch calls, through ctypes, once it has defined the schemas.
#include <torch/library.h>
#include <torch/version.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "allocate.h"
#include "device.h"
#include "kernels.h"
#include "scope.h"
#include "texts.h"

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
  // A call that is given no tensor has no backend's key.
  if (!op.facts.needs_tensor)
    Implement<CpuKernel>(op, variant, name, Key::CompositeExplicitAutograd);
  Implement<AutogradKernel>(op, variant, name, Key::Autograd);
  if (op.writes(variant)) Implement<BumpVersionsKernel>(op, variant, name, Key::ADInplaceOrView);
  // The others write into what they are given, which must not be a cast copy.
  if (variant == Variant::kFunctional && !op.facts.dtype_groups.empty()) {
    Implement<AutocastKernel>(op, variant, name, Key::AutocastCPU);
  }
  for (const char* const key : torch_texts::kWrongLayoutKeys) {
    Implement<WrongLayoutKernel>(op, variant, name, c10::parseDispatchKey(key));
  }
}

void ImplementOnDevice(const TorchOperator& op, Variant variant, const char* name,
                       c10::DeviceType type) {
  Implement<DeviceKernel>(op, variant, name, BackendKey(type));
  if (variant != Variant::kFunctional || op.facts.dtype_groups.empty()) return;
  auto function = torch::CppFunction::makeFromBoxedFunctor(
      std::make_unique<AutocastKernel>(&op, variant, type));
  LibraryOf(op.op->library).impl(name, torch::dispatch(AutocastKey(type), std::move(function)));
}

// f(variant, name) for each torch operator that there is.
template <class F>
void ForVariants(const TorchOperator& op, F&& f) {
  const std::string& name = op.op->contract->name;
  f(Variant::kFunctional, name.c_str());
  if (op.facts.has_out) f(Variant::kOut, (name + ".out").c_str());
  if (op.facts.has_in_place) f(Variant::kInPlace, (name + "_").c_str());
}

std::deque<TorchOperator>& TheOperators() {
  static auto& operators = *new std::deque<TorchOperator>;  // kernels point into it
  return operators;
}

std::vector<c10::DeviceType>& TheDevices() {
  static auto& types = *new std::vector<c10::DeviceType>;  // that operators are implemented for
  return types;
}

void RegisterOnDevice(const TorchOperator& op, c10::DeviceType type) {
  ForVariants(
      op, [&](Variant variant, const char* name) { ImplementOnDevice(op, variant, name, type); });
}

void RegisterOne(Operator& op) {
  const TorchOperator& made = TheOperators().emplace_back(op);
  ForVariants(made,
              [&](Variant variant, const char* name) { ImplementVariant(made, variant, name); });
  for (const c10::DeviceType type : TheDevices()) RegisterOnDevice(made, type);
}

// Implements all operators for the libraries of devices that were loaded since the last call.
void RegisterDevices() {
  auto& known = TheDevices();
  for (const DeviceKind* kind : DeviceKinds()) {
    const auto type = TorchTypeOf(kind->table.dlpack_type);
    if (!type || std::find(known.begin(), known.end(), *type) != known.end()) continue;
    known.push_back(*type);
    for (const TorchOperator& op : TheOperators()) RegisterOnDevice(op, *type);
  }
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
    anyop::torch_host::CarryScopes();
    anyop::torch_host::RegisterDevices();
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
// Where a tensor lies, as anyop::torch_host::DLDeviceOf says.
ANYOP_EXPORT const void* anyop_torch_device_of() {
  constexpr auto device_of = [](const void* tensor) {
    return anyop::torch_host::DLDeviceOf(static_cast<const at::Tensor*>(tensor)->device());
  };
  return reinterpret_cast<const void*>(+device_of);
}
}
