// SPDX-License-Identifier: Apache-2.0
// NumPy as a host: what is not on the way of every call.
#include "anyop/tensor.h"
#include "bindings/host/lend.h"
#include "numpy_view.h"

namespace anyop::python {
namespace {

PyArrayObject* AsArray(PyObject* object) { return reinterpret_cast<PyArrayObject*>(object); }

// The last array in the chain of bases, which has the memory that the others are views of; below it
// may be an owner that is no array.
PyObject* OwnerOf(PyObject* array) {
  for (PyObject* base = array; base && PyArray_Check(base); base = PyArray_BASE(AsArray(base))) {
    array = base;
  }
  return array;
}

struct ArrayLoan {
  void* owner;
  void (*end)(void*);
};

class Numpy final : public Host {
 public:
  Numpy() : Host({"numpy", "NumPy array", "*", "*", "numpy.asarray(*)"}) {}

  bool IsTensor(PyObject* object) const override { return PyArray_Check(object); }
  bool ViewPlain(PyObject* object, anyop_host_view& view) const override {
    return ViewDense(object, Access::kRead, view.tensor);
  }
  const void* DataOf(PyObject* object) const override {
    return PyArray_Check(object) ? PyArray_DATA(AsArray(object)) : nullptr;
  }
  Ref Lend(const DLTensor& t, Access access, void* owner, void (*end)(void*)) const override {
    auto loan = std::make_unique<ArrayLoan>(owner, end);
    constexpr auto finish = [](PyObject* capsule) {
      const std::unique_ptr<ArrayLoan> ended(
          static_cast<ArrayLoan*>(PyCapsule_GetPointer(capsule, nullptr)));
      ended->end(ended->owner);
    };
    Ref base(PyCapsule_New(loan.get(), nullptr, finish));
    if (!base) {
      end(owner);
      throw ErrorSet{};
    }
    loan.release();
    return ViewAsArray(t, access, std::move(base));
  }
  Ref ReadOnly(PyObject* own, const DLTensor& t) const override {
    return ViewAsArray(t, Access::kRead, Ref::Borrow(own));
  }
  Ref DTypeObject(DType dtype) const override { return ToNumpyDType(dtype); }
  int ToDType(PyObject* object) const override { return python::ToDType(object); }
  HostMemory MemoryOf(PyObject* object) const override {
    PyObject* owner = OwnerOf(object);
    return {Ref::Borrow(owner), PyArray_DATA(AsArray(owner)), PyArray_NBYTES(AsArray(owner))};
  }
  bool Holds(const HostMemory& memory) const override {
    PyArrayObject* array = AsArray(memory.owner.get());
    return PyArray_DATA(array) == memory.data && PyArray_NBYTES(array) == memory.bytes;
  }
};

}  // namespace

const Host* MakeNumpyHost() { return new Numpy; }

}  // namespace anyop::python
