// SPDX-License-Identifier: Apache-2.0
#include "bindings/calls/recorded.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "bindings/module_functions.h"
#include "platform/byte_count.h"
#include "runtime/memory/copy.h"
#include "runtime/plan/services.h"

namespace anyop::python {

std::vector<std::int64_t> ToStrides(const std::string& name, PyObject* list) {
  std::vector<std::int64_t> strides;
  if (!list) return strides;
  if (!PyList_Check(list)) {
    ThrowValueError("replay: the strides of " + name + " are " + Repr(list) +
                    ", but must be a list of whole numbers. The file is damaged.");
  }
  for (Py_ssize_t d = 0; d < PyList_GET_SIZE(list); ++d) {
    PyObject* const item = PyList_GET_ITEM(list, d);
    int overflow = 0;
    const std::int64_t stride =
        PyLong_Check(item) ? PyLong_AsLongLongAndOverflow(item, &overflow) : 0;
    if (!PyLong_Check(item) || overflow) {
      ThrowValueError("replay: a stride of " + name + " is " + Repr(item) +
                      ", but must be a whole number of 64 bits. The file is damaged.");
    }
    strides.push_back(stride);
  }
  return strides;
}

Array PlacedArray(const std::string& name, const DLTensor& type,
                  const std::vector<std::int64_t>& strides) {
  const Array::Shape shape(type.shape, std::size_t(type.ndim));
  const DType dtype = static_cast<const Tensor&>(type).type();
  if (strides.empty()) return Array::Empty(shape, dtype);
  const auto refuse = [&](const std::string& what) {
    ThrowValueError("replay: " + name + " is " + Show(type) + what + ". The file is damaged.");
  };
  if (strides.size() != shape.size()) {
    refuse(", but the file has " + std::to_string(strides.size()) + " strides of it");
  }
  // Elements before and behind the first one.
  std::int64_t before = 0, behind = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    // std::abs of INT64_MIN is not defined. Sums and products that do not fit stay kTooManyBytes,
    // so that strides of a damaged file are refused below.
    const std::int64_t stride = strides[d] == INT64_MIN ? kTooManyBytes : std::abs(strides[d]);
    const std::int64_t reach = MultiplyBytes(std::max<std::int64_t>(shape[d] - 1, 0), stride);
    std::int64_t& side = strides[d] < 0 ? before : behind;
    side = AddBytes(side, reach);
  }
  const std::int64_t element = anyop::Bytes(dtype);
  const std::int64_t bytes = MultiplyBytes(AddBytes(AddBytes(before, behind), 1), element);
  if (bytes > kMostBytes) refuse(", but with its strides no memory can hold it");
  auto memory = std::make_shared<Array>(Array::Zeros({bytes}, DType::kU8));
  char* const begin = memory->data<char>() + before * element;
  return Array::Wrap(begin, shape, dtype, strides, std::move(memory));
}

void AddWritten(const Ref& written, const std::string& name, const DLTensor& tensor) {
  Ref bytes = Checked(PyBytes_FromStringAndSize(nullptr, Py_ssize_t(PackedBytes(tensor))));
  CopyToPacked(tensor, PyBytes_AS_STRING(bytes.get()));
  const Ref row = Checked(Py_BuildValue("(sO)", Show(tensor).c_str(), bytes.get()));
  if (PyDict_SetItemString(written.get(), name.c_str(), row.get()) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
