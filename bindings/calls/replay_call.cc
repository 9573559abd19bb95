// SPDX-License-Identifier: Apache-2.0
// A recorded call (src/runtime/observe/capsule.h), made again.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>

#include "anyop/runtime.h"
#include "anyop/tensor.h"
#include "anyop/value.h"
#include "bindings/calls/recorded.h"
#include "bindings/module_functions.h"
#include "bindings/operators/op_object.h"
#include "runtime/memory/copy.h"
#include "runtime/observe/check_mode.h"
#include "runtime/plan/frame.h"
#include "signature/owned_call.h"

namespace anyop::python {
namespace {

// Bytes of an object that exports them, for as long as it lives.
class Buffer {
 public:
  explicit Buffer(PyObject* object) {
    if (PyObject_GetBuffer(object, &buffer_, PyBUF_SIMPLE) < 0) throw ErrorSet{};
  }
  ~Buffer() { PyBuffer_Release(&buffer_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  const void* data() const { return buffer_.buf; }
  std::int64_t size() const { return buffer_.len; }

 private:
  Py_buffer buffer_;
};

class ReplayedCall {
 public:
  ReplayedCall(Operator& op, const std::string& text, PyObject* tensors)
      : op_(op), call_(ParseCall(*op.contract, text)) {
    for (int i = 0; i < op.n_params; ++i) {
      anyop_value& v = call_[i];
      const std::string name(op.contract->forms[0].params[std::size_t(i)].name);
      if (v.tag == ANYOP_TENSOR) v.t = Add(name, *v.t, tensors);
      if (v.tag != ANYOP_TENSORS) continue;
      auto& list = lists_.emplace_back();
      for (std::uint32_t k = 0; k < v.count; ++k) {
        list.push_back(Add(name + "." + std::to_string(k), *v.ts[k], tensors));
      }
      v.ts = list.data();
    }
  }

  // layout: a result -> the argument whose memory it has, or None where it is declined.
  void PlaceResults(PyObject* layout) {
    for (int r = 0; r < op_.n_results; ++r) {
      const std::string name(op_.contract->forms[0].results[std::size_t(r)].name);
      PyObject* const over = PyDict_GetItemString(layout, name.c_str());
      is_declined_.push_back(over == Py_None);
      if (!over || over == Py_None) continue;
      const std::string argument = ToText(over, "replay: an argument");
      const auto found = inputs_.find(argument);
      if (found == inputs_.end()) {
        ThrowValueError("replay: " + name + " has the memory of '" + argument +
                        "', but the call has no such tensor. The file is damaged.");
      }
      call_[op_.n_params + r] = TensorValue(&found->second.array.tensor());
    }
    const HeldPlan plan = GetPlan(op_, call_.frame());
    for (int r = 0; r < op_.n_results; ++r) {
      anyop_value& v = call_[op_.n_params + r];
      if (v.tag == ANYOP_TENSOR || is_declined_[std::size_t(r)]) continue;
      const ResultShape& s = plan->results[r];
      results_.push_back(Array::Empty(Array::Shape(s.shape, std::size_t(s.rank)), s.dtype));
      v = TensorValue(&results_.back().tensor());
    }
  }

  // Nanoseconds. The arguments are as they were recorded, also where the last run wrote them.
  double Run() {
    for (auto& [name, input] : inputs_) {
      CopyFromPacked(input.bytes->data(), input.array.tensor());
    }
    const auto start = std::chrono::steady_clock::now();
    const HeldPlan plan = GetPlan(op_, call_.frame());
    anyop::Run(op_, *plan, call_.frame());
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    kernel_ = KernelName(*plan);
    return spent.count();
  }
  const std::string& kernel() const { return kernel_; }

  // name -> (type, elements in row-major order), of what the call has written.
  Ref Written() const {
    Ref written = Checked(PyDict_New());
    const Form& form = op_.contract->forms[0];
    for (int i = 0; i < op_.n_params + op_.n_results; ++i) {
      const std::string name(EntryName(op_, i));
      const anyop_value& v = call_[i];
      if (v.tag != ANYOP_TENSOR || !(i >= op_.n_params || form.params[std::size_t(i)].is_mut)) {
        continue;
      }
      AddWritten(written, name, *v.t);
    }
    return written;
  }

 private:
  struct Input {
    Array array;
    std::unique_ptr<Buffer> bytes;
  };

  // tensors: name -> (elements, strides; none for contiguous memory).
  const DLTensor* Add(const std::string& name, const DLTensor& type, PyObject* tensors) {
    PyObject* const row = PyDict_GetItemString(tensors, name.c_str());
    if (!row) ThrowValueError("replay: the file has no tensor '" + name + "'.");
    if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != 2) {
      ThrowTypeError("replay: the tensor '" + name + "' is " + Repr(row) +
                     ", but must be its bytes and its strides.");
    }
    Input& input = inputs_[name];
    input.bytes = std::make_unique<Buffer>(PyTuple_GET_ITEM(row, 0));
    if (input.bytes->size() != PackedBytes(type)) {
      ThrowValueError("replay: the tensor '" + name + "' has " +
                      std::to_string(input.bytes->size()) + " bytes, but " + Show(type) + " has " +
                      std::to_string(PackedBytes(type)) + ". The file is damaged.");
    }
    input.array = PlacedArray(name, type, ToStrides(name, PyTuple_GET_ITEM(row, 1)));
    return &input.array.tensor();
  }

  Operator& op_;
  OwnedCall call_;
  std::map<std::string, Input> inputs_;
  // Deques, because call_ points to their elements while more are added.
  std::deque<std::vector<const DLTensor*>> lists_;
  std::deque<Array> results_;
  std::vector<bool> is_declined_;
  std::string kernel_;
};

// replay(op, call, tensors, layout, repeats): see the stub.
PyObject* Replay(PyObject*, PyObject* args) {
  return Guarded([&] {
    PyObject *function, *tensors, *layout;
    const char* text;
    int repeats;
    if (!PyArg_ParseTuple(args, "OsO!O!i", &function, &text, &PyDict_Type, &tensors, &PyDict_Type,
                          &layout, &repeats)) {
      throw ErrorSet{};
    }
    ReplayedCall call(*ToOperator(function).op, text, tensors);
    call.PlaceResults(layout);
    const Ref times = TimesOf(repeats, [&] { return call.Run(); });
    const Ref written = call.Written();
    return Py_BuildValue("(sOO)", call.kernel().c_str(), times.get(), written.get());
  });
}

// set_checking(on, deeply)
PyObject* SetCheckMode(PyObject*, PyObject* args) {
  return Guarded([&]() -> PyObject* {
    int on, deeply;
    if (!PyArg_ParseTuple(args, "pp", &on, &deeply)) throw ErrorSet{};
    SetChecking(on, deeply);
    Py_RETURN_NONE;
  });
}

PyMethodDef g_replay_methods[] = {
    {"replay", Replay, METH_VARARGS, "Makes a recorded call again."},
    {"set_checking", SetCheckMode, METH_VARARGS, "Check mode on or off."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void AddReplayFunctions(PyObject* module) {
  if (PyModule_AddFunctions(module, g_replay_methods) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
