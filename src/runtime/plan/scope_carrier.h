// SPDX-License-Identifier: Apache-2.0
// Scopes on threads of a framework's own. A framework may run gradients on threads that it keeps
// for that, and carry along what belongs to the thread that asked for them. A scope goes with it:
// calls there see the scope of the thread that they are made for.
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
  // Which work the thread does that may be for another one; -1: none. Get is asked where it is new.
  virtual int task() const = 0;
};

// The framework's; it lives as long as the process. A scope that the calling thread is in is put at
// once, those of other threads when they next change.
void SetScopeCarrier(const ScopeCarrier& carrier);

// How many threads have a scope that a framework carries, or took one that it brought. Where there
// are none, calls need not look.
extern constinit std::atomic<int> threads_with_carried;
void TakeCarriedScope();
// Makes what was carried here the calling thread's scope. Before each reading of that.
inline void FollowCarriedScope() {
  if (threads_with_carried.load(std::memory_order_relaxed)) [[unlikely]] {
    TakeCarriedScope();
  }
}

}  // namespace anyop
