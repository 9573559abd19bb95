// SPDX-License-Identifier: Apache-2.0
// Tensors of a call as objects of Python for as long as the call lasts, without copying.
#pragma once
#include <atomic>

#include "host.h"

namespace anyop::python {

// How many objects over one call's memory are alive; ends with the last of them.
struct Ledger {
  std::atomic<int> references{1};
  void Add() { references.fetch_add(1, std::memory_order_relaxed); }
  // Whoever drops last must have seen all that the others did before they dropped.
  void Drop() {
    if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
};

// Lends the memory of one call. Needs Python's lock.
class Lender {
 public:
  Lender() = default;
  ~Lender() { ledger_->Drop(); }
  Lender(const Lender&) = delete;
  Lender& operator=(const Lender&) = delete;

  // A tensor of the host over t's memory, which must outlive it; read-only unless it may be
  // written, where the host knows such. Throws ErrorSet.
  Ref Lend(const Host& host, const DLTensor& t, Access access);
  // Whether an object that was lent is still alive, or a view of one: the lender has one reference
  // itself. Acquires what a dropped object did with the memory, which the caller uses next.
  bool has_open() const { return ledger_->references.load(std::memory_order_acquire) > 1; }

 private:
  Ledger* ledger_ = new Ledger;
};

// A tensor over t's memory, for code that keeps none: the same object whenever a tensor of the same
// address and layout is asked for again. Only one host may say lends_again(), because the objects
// are not kept by host. Throws ErrorSet.
Ref LendAgain(const Host& host, const DLTensor& t);

}  // namespace anyop::python
