// SPDX-License-Identifier: Apache-2.0
// Tensors of a call as objects of Python for as long as the call lasts, without copying.
#pragma once
#include <atomic>

#include "numpy_view.h"
#include "python.h"

namespace anyop::python {

enum class ObjectKind : bool { kNumpy, kTorch };

// How many objects over one call's memory are alive; ends with the last of them.
struct Ledger {
  std::atomic<int> references{1};
  void Add() { references.fetch_add(1, std::memory_order_relaxed); }
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

  // An array or tensor over t's memory, which must outlive it. NumPy's is read-only unless it may
  // be written; torch has no such thing. Throws ErrorSet.
  Ref Lend(ObjectKind kind, const DLTensor& t, Access access);
  // Whether an object that was lent is still alive, or a view of one.
  bool has_open() const { return ledger_->references.load(std::memory_order_acquire) > 1; }

 private:
  Ledger* ledger_ = new Ledger;
};

// A torch tensor over t's memory, for code that keeps none: the same object whenever a tensor of
// the same address and layout is asked for again. Throws ErrorSet.
Ref LendAgain(const DLTensor& t);
// A NumPy array over t's memory, which `base` keeps alive.
Ref ViewAsArray(const DLTensor& t, Access access, Ref base);
// numpy.dtype or torch.dtype.
Ref DTypeObject(ObjectKind kind, DType dtype);
// Where the elements of an array or tensor of this kind begin; null for another object.
const void* DataOf(ObjectKind kind, PyObject* object);
// Views an array or tensor of this kind that needs no care; false for any other object.
bool ViewPlain(ObjectKind kind, PyObject* object, DLTensor& t);

}  // namespace anyop::python
