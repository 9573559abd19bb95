// SPDX-License-Identifier: Apache-2.0
#include "bindings/calls/recorded.h"

#include <algorithm>
#include <memory>

#include "bindings/module.h"
#include "runtime/copy.h"
#include "runtime/host.h"

namespace anyop::python {

std::vector<std::int64_t> ToStrides(PyObject* list) {
  std::vector<std::int64_t> strides;
  for (Py_ssize_t d = 0; list && d < PyList_GET_SIZE(list); ++d) {
    strides.push_back(PyLong_AsLongLong(PyList_GET_ITEM(list, d)));
  }
  if (PyErr_Occurred()) throw ErrorSet{};
  return strides;
}

Array PlacedArray(const DLTensor& type, const std::vector<std::int64_t>& strides) {
  const Array::Shape shape(type.shape, std::size_t(type.ndim));
  const DType dtype = static_cast<const Tensor&>(type).type();
  if (strides.empty()) return Array::Empty(shape, dtype);
  if (strides.size() != shape.size()) ThrowValueError("replay: a tensor has too few strides.");
  std::int64_t first = 0, last = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    (strides[d] < 0 ? first : last) += std::max<std::int64_t>(shape[d] - 1, 0) * strides[d];
  }
  const std::int64_t bytes = anyop::Bytes(dtype);
  auto memory = std::make_shared<Array>(Array::Zeros({(last - first + 1) * bytes}, DType::kU8));
  char* const begin = memory->data<char>() - first * bytes;
  return Array::Wrap(begin, shape, dtype, strides, std::move(memory));
}

void AddWritten(const Ref& written, const std::string& name, const DLTensor& tensor) {
  Ref bytes = Checked(PyBytes_FromStringAndSize(nullptr, Py_ssize_t(PackedBytes(tensor))));
  CopyToPacked(tensor, PyBytes_AS_STRING(bytes.get()));
  const Ref row = Checked(Py_BuildValue("(sO)", Show(tensor).c_str(), bytes.get()));
  if (PyDict_SetItemString(written.get(), name.c_str(), row.get()) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
