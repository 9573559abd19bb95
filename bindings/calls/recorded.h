// SPDX-License-Identifier: Apache-2.0
// What calls that were recorded need to be made again.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "anyop/runtime.h"
#include "bindings/python.h"

namespace anyop::python {

// The strides that a file has, which may be damaged: what is no list of whole numbers is refused.
// {} for null. name: of the tensor, for messages.
std::vector<std::int64_t> ToStrides(const std::string& name, PyObject* list);
// Memory for a tensor of these strides, which may be 0 or negative; {}: contiguous.
Array PlacedArray(const std::string& name, const DLTensor& type,
                  const std::vector<std::int64_t>& strides);
// written[name] = (type, elements in row-major order).
void AddWritten(const Ref& written, const std::string& name, const DLTensor& tensor);
inline void AddWritten(const Ref& written, const std::string& name, const Array& array) {
  AddWritten(written, name, array.tensor());
}

// What run() returns, so many times, as a list.
template <class F>
Ref TimesOf(int repeats, F&& run) {
  Ref times = Checked(PyList_New(0));
  for (int k = 0; k < repeats; ++k) {
    const Ref ns = Checked(PyFloat_FromDouble(run()));
    if (PyList_Append(times.get(), ns.get()) < 0 || PyErr_CheckSignals() < 0) throw ErrorSet{};
  }
  return times;
}

}  // namespace anyop::python
