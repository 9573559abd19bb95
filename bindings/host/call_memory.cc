// SPDX-License-Identifier: Apache-2.0
#include "call_memory.h"

#include <algorithm>

namespace anyop::python {
namespace {

void CopyShape(View& view, std::int64_t* to) {
  DLTensor& t = view.tensor;
  std::copy_n(t.shape, t.ndim, to);
  t.shape = to;
  if (!t.strides || t.strides == view.strides) return;  // these are the call's own already
  std::copy_n(t.strides, t.ndim, view.strides);
  t.strides = view.strides;
}

}  // namespace

void CallMemory::CopyShapes() {
  for (View* v = first_view_; v != next_view_; ++v) CopyShape(*v, Array<std::int64_t>(kMaxRank));
  if (!more_) return;
  for (const TensorList& list : more_->lists) {
    const auto n = std::size_t(PyTuple_GET_SIZE(list.tuple));
    for (std::size_t i = 0; i < n; ++i) CopyShape(list.views[i], Array<std::int64_t>(kMaxRank));
  }
}

void CallMemory::ViewLists(const OperatorInfo& info) {
  for (TensorList& list : more_->lists) {
    const Py_ssize_t n = PyTuple_GET_SIZE(list.tuple);
    list.views = Array<View>(std::size_t(n));
    auto* tensors = Array<const DLTensor*>(std::size_t(n));
    const Access access = list.param->is_mut ? Access::kWrite : Access::kRead;
    for (Py_ssize_t i = 0; i < n; ++i) {
      View& view = list.views[i];
      tensors[i] = &view.tensor;
      PyObject* element = PyTuple_GET_ITEM(list.tuple, i);
      host_->ViewElement({info.name.c_str(), list.param->name, i}, access, element, *this, view);
    }
    *list.value = TensorsValue(tensors, std::size_t(n));
  }
}

PyObject* CallMemory::ElementsOf(const anyop_value& value) const {
  return std::find_if(more_->lists.begin(), more_->lists.end(),
                      [&](const TensorList& list) { return list.value == &value; })
      ->tuple;
}

void* CallMemory::FromHeap(std::size_t bytes) {
  more().heap.push_back(std::make_unique<char[]>(bytes));
  return more_->heap.back().get();
}

}  // namespace anyop::python
