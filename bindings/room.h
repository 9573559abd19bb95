// SPDX-License-Identifier: Apache-2.0
// Room for the values of a call.
#pragma once
#include <cstddef>
#include <memory>

namespace anyop::python {

// n uninitialized elements: on the stack where they are few, as those of an operator are; a graph
// may have more.
template <class T, std::size_t kFew>
class Room {
 public:
  explicit Room(std::size_t n) {
    if (n > kFew) [[unlikely]] {
      many_ = std::make_unique_for_overwrite<T[]>(n);
      at_ = many_.get();
    }
  }
  T* data() { return at_; }
  T& operator[](std::size_t i) { return at_[i]; }

 private:
  T few_[kFew];
  T* at_ = few_;
  std::unique_ptr<T[]> many_;
};

}  // namespace anyop::python
