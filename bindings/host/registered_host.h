// SPDX-License-Identifier: Apache-2.0
// Hosts that registered themselves through anyop/python_host.h.
#pragma once
#include <memory>
#include <vector>

#include "anyop/stream.h"
#include "host.h"

namespace anyop::python {

class RegisteredHost final : public Host {
 public:
  // elsewhere(name, args, out) calls the framework's own operator, bound(call, tensors, out) makes
  // a bound call; None where there is none.
  RegisteredHost(const anyop_python_host& record, PyObject* elsewhere, PyObject* bound);

  bool IsTensor(PyObject* object) const override { return record.is_tensor(object) != 0; }
  bool ViewPlain(PyObject* object, anyop_host_view& view) const override;
  bool ViewAnywhere(PyObject* object, anyop_host_view& view) const override;
  const void* DataOf(PyObject* object) const override;
  bool can_lend() const override { return record.lend != nullptr; }
  Ref Lend(const DLTensor& t, Access access, void* owner, void (*end)(void*)) const override;
  Ref DTypeObject(DType dtype) const override;
  int ToDType(PyObject* object) const override;
  HostMemory MemoryOf(PyObject* object) const override;
  bool Holds(const HostMemory& memory) const override;
  bool has_devices() const { return record.stream && record.allocate_on; }
  void CountWrite(PyObject* tensor) const override {
    if (record.written) record.written(tensor);
  }
  PyObject* CallElsewhere(OperatorInfo& info, const Slots& slots) const override;
  bool takes_bound_calls() const override { return record.sees_calls && bound_ != Py_None; }
  PyObject* CallBound(OperatorInfo& info, PyObject* call, PyObject* tensors,
                      PyObject* out) const override;
  bool IsSymbolicNumber(PyObject* object) const override { return NeedsGradient(object); }
  std::string number_advice(PyObject* object) const override;

  anyop_python_host record{};  // the fields that both this version and the host's header know

 private:
  // Whether the framework must see a call with this tensor, which it cannot if it is a number.
  bool NeedsGradient(PyObject* object) const;
  // What the record's `view` returns, with its error forgotten; -1 for no tensor of the host.
  int Look(PyObject* object, anyop_host_view& view) const;

  PyObject *const elsewhere_, *const bound_;
};

// One call with the tensors of such a host.
class RegisteredCall final : public HostCall {
 public:
  explicit RegisteredCall(const RegisteredHost& host)
      : HostCall(host),
        record_(host.record),
        has_devices_(host.has_devices()),
        takes_bound_calls_(host.takes_bound_calls()),
        reason_(host.record.sees_calls) {}

  // The call is looked at and not made: its tensors need no memory.
  void Describe() {
    is_described_ = true;
    reason_ = nullptr;
  }

  void ResultsLieOn(DLDevice device) {
    if (IsHost(device_)) device_ = device;
  }
  bool is_direct() const { return !reason_; }
  bool views_results() const { return is_direct(); }
  const char* reason() const { return reason_; }
  void Convert(const ArgumentName& name, Access access, PyObject* object, CallMemory& memory,
               View& view);
  void ViewElement(const ArgumentName& name, Access access, PyObject* object, CallMemory& memory,
                   View& view) override {
    Convert(name, access, object, memory, view);
  }
  Ref Allocate(DType dtype, int rank, const std::int64_t* shape, CallMemory& memory, View& view);
  std::unique_ptr<StreamScope> OnStream() const;
  void Finish() const {
    for (PyObject* tensor : written_) record_.written(tensor);
  }

 private:
  const anyop_python_host& record_;
  const bool has_devices_, takes_bound_calls_;
  // The device of a tensor that lies on one. A tensor on the CPU says nothing: the plan may be all
  // that reads it. Tensors on two devices are refused when the call is planned.
  DLDevice device_ = kHostDevice;
  const char* reason_;
  bool is_described_ = false;
  std::vector<PyObject*> written_;  // borrowed, like all arguments; only where the host asks
};

}  // namespace anyop::python
