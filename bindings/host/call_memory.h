// SPDX-License-Identifier: Apache-2.0
// Room for what the values of one call point into.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "anyop/value.h"
#include "bindings/operators/op_object.h"
#include "host.h"

namespace anyop::python {

// Memory that the values of one call point into. On the stack; only calls with long lists use the
// heap.
class CallMemory {
 public:
  // host: the call's view of its host, null where it has no tensors to look at. views: one for
  // each tensor that is an argument or result of its own. Both stay the caller's.
  CallMemory(HostCall* host, View* views) : host_(host), first_view_(views), next_view_(views) {}
  const Host& host() const { return host_ ? host_->host() : NumpyHost(); }
  View& NextView() { return *next_view_++; }
  template <class T>
  T* Array(std::size_t n) {
    const std::size_t bytes = (n * sizeof(T) + 15) & ~std::size_t{15};  // as buffer_ is aligned
    if (used_ + bytes > sizeof(buffer_)) return static_cast<T*>(FromHeap(bytes));
    void* at = buffer_ + used_;
    used_ += bytes;
    return static_cast<T*>(at);
  }
  // Keeps an object until the call has ended.
  void Keep(Ref object) {
    if (object) more().kept.push_back(std::move(object));
  }
  // Copies shapes and strides out of the tensors, for the time in which other threads may reshape
  // them.
  void CopyShapes();
  // A parameter that is a list of tensors, of which only the tuple is there yet.
  struct TensorList {
    const Parameter* param;
    PyObject* tuple;
    anyop_value* value;
    View* views = nullptr;
  };
  void Add(TensorList list) { more().lists.push_back(list); }
  bool has_lists() const { return more_ && !more_->lists.empty(); }
  void ViewLists(const OperatorInfo& info);
  // The elements of that list; `value` is what the list became.
  PyObject* ElementsOf(const anyop_value& value) const;
  // Whether an argument was copied because no tensor could describe it.
  bool has_copies() const { return has_copies_; }
  void set_has_copies() { has_copies_ = true; }

 private:
  // What few calls need. Behind one pointer, because a call pays for each owning member that it
  // destroys, and most calls have nothing to keep.
  struct More {
    std::vector<Ref> kept;
    std::vector<std::unique_ptr<char[]>> heap;
    std::vector<TensorList> lists;
  };
  More& more() {
    if (!more_) more_ = std::make_unique<More>();
    return *more_;
  }
  void* FromHeap(std::size_t bytes);

  HostCall* const host_;
  View* const first_view_;
  View* next_view_;
  bool has_copies_ = false;
  std::size_t used_ = 0;
  std::unique_ptr<More> more_;
  alignas(16) char buffer_[2048];
};

}  // namespace anyop::python
