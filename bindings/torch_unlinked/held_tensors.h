// SPDX-License-Identifier: Apache-2.0
// Torch tensors that a graph was made with: whether they still are what they were.
#pragma once
#include <vector>

#include "bindings/python.h"

namespace anyop::python {

class HeldTensors {
 public:
  HeldTensors() = default;
  ~HeldTensors();
  HeldTensors(const HeldTensors&) = delete;
  HeldTensors& operator=(const HeldTensors&) = delete;

  // rows: (place among the arguments of a call, or -1; tensor; whether its elements matter too).
  // Throws ErrorSet.
  void Set(PyObject* rows);

  // Whether every tensor lies where it lay, has the dtype, sizes and strides that it had and, where
  // its elements matter, was not written since.
  // arguments: a list or tuple of a call's tensors, which stand in for those bound by place.
  bool Hold(PyObject* arguments) const;

 private:
  struct Row {
    Py_ssize_t place;
    PyObject* tensor;
    void* data;
    std::uint8_t number;              // torch's number
    std::vector<std::int64_t> sizes;  // then the strides
    std::int64_t version;             // -1: its elements do not matter
  };
  static bool HasForm(PyObject* tensor, const Row& row);
  void Clear();

  std::vector<Row> rows_;
};

}  // namespace anyop::python
