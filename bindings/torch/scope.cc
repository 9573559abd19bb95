// SPDX-License-Identifier: Apache-2.0
// torch runs backward of a device on a thread of its own, and takes along named objects of Python
// that belong to the thread that asked for it. A scope goes as one of these, with no such object.
#include "scope.h"

#include <ATen/ThreadLocalPythonObjects.h>
#include <torch/csrc/autograd/graph_task.h>

#include <utility>

#include "runtime/plan/scope_carrier.h"

namespace anyop::torch_host {
namespace {

using at::impl::ThreadLocalPythonObjects;

struct CarriedObject final : c10::SafePyObject {
  explicit CarriedObject(std::shared_ptr<const CarriedScope> carried)
      : c10::SafePyObject(nullptr, nullptr), scope(std::move(carried)) {}
  const std::shared_ptr<const CarriedScope> scope;
};

const std::string& Key() {
  static const auto& key = *new std::string("anyop.scope");
  return key;
}

class TorchCarrier final : public ScopeCarrier {
  void Put(std::shared_ptr<const CarriedScope> scope) const override {
    if (scope) {
      ThreadLocalPythonObjects::set(Key(), std::make_shared<CarriedObject>(std::move(scope)));
    } else if (ThreadLocalPythonObjects::contains(Key())) {
      ThreadLocalPythonObjects::erase(Key());
    }
  }
  const CarriedScope* Get() const override {
    if (!ThreadLocalPythonObjects::contains(Key())) return nullptr;
    const auto& object = ThreadLocalPythonObjects::get(Key());
    return static_cast<const CarriedObject&>(*object).scope.get();
  }
  int task() const override { return torch::autograd::get_current_graph_task_id(); }
};

}  // namespace

void CarryScopes() {
  static const auto& carrier = *new TorchCarrier;
  static const bool once = (SetScopeCarrier(carrier), true);
  (void)once;
}

}  // namespace anyop::torch_host
