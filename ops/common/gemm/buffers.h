// SPDX-License-Identifier: Apache-2.0
// Buffers for the threads of a product.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstring>

#include "anyop/op.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Buffers, as many as there are threads, so that Take finds a free one without waiting.
template <class T>
class ThreadBuffers {
 public:
  // memory: `elements` of each of `count` buffers; taken: a byte for each.
  ThreadBuffers(T* memory, unsigned char* taken, std::int64_t elements, std::int64_t count)
      : memory_(memory), elements_(elements), count_(count), taken_(taken) {
    std::memset(taken_, 0, std::size_t(count));
  }
  T* Take() const {
    for (std::int64_t i = 0;; i = i + 1 < count_ ? i + 1 : 0) {
      std::atomic_ref<unsigned char> taken(taken_[i]);
      // Acquires what Return releases: the last holder is done with the buffer's memory.
      if (!taken.exchange(1, std::memory_order_acquire)) return memory_ + i * elements_;
    }
  }
  void Return(const T* buffer) const {
    const std::int64_t i = elements_ ? (buffer - memory_) / elements_ : 0;  // empty: all are one
    std::atomic_ref<unsigned char> taken(taken_[i]);
    taken.store(0, std::memory_order_release);
  }

 private:
  T* memory_;
  std::int64_t elements_, count_;
  unsigned char* taken_;
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
