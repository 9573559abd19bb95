// SPDX-License-Identifier: Apache-2.0
// Scopes on threads of a framework's own. A framework may run gradients on threads that it keeps
// for that, and carry objects there of the thread that asked for the gradients. The scope of that
// thread is made one of these objects, so that calls of the gradients see it.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "anyop/scope.h"

namespace anyop {

ScopeState InitialScope();  // of a thread that is in no block

struct CarriedScope {
  std::uint64_t number;  // no two are equal, and none is 0
  ScopeState scope;
};

// What a framework carries from thread to thread.
class ScopeCarrier {
 public:
  virtual ~ScopeCarrier() = default;
  virtual void Put(std::shared_ptr<const CarriedScope> scope) const = 0;  // null: none
  virtual const CarriedScope* Get() const = 0;
  // A number for the work that the thread does, which may be for another thread; -1: none. Get is
  // asked only when the number has changed: looking an object up in every call would cost.
  virtual int task() const = 0;
};

// Sets the framework's carrier, which must live as long as the process. A scope that the calling
// thread is in is put at once, those of other threads when they next change.
void SetScopeCarrier(const ScopeCarrier& carrier);

// How many threads have put a scope into the carrier, or follow one that it brought. At 0 a
// call reads nothing but this number.
extern constinit std::atomic<int> threads_with_carried;
void TakeCarriedScope();
// Makes the scope that was carried here, if any, the calling thread's. Comes before each reading of
// the thread's scope.
inline void FollowCarriedScope() {
  if (threads_with_carried.load(std::memory_order_relaxed)) [[unlikely]] {
    TakeCarriedScope();
  }
}

}  // namespace anyop
