// SPDX-License-Identifier: Apache-2.0
// NumPy arrays seen as tensors: the fields of a PyArrayObject are read in place.
#pragma once
#include <bit>
#include <cstdint>

#include "anyop/value.h"
#include "bindings/host/host.h"

namespace anyop::python {

// Numbers of NumPy's types. Those of bfloat16 and the like, which NumPy does not have, are learned
// from their first array, whichever package registered them (ml_dtypes, MindSpore).
// NumPy numbers them from 256 on (NPY_USERDEF): there is room for as many.
constexpr int kTypeNumbers = 512;
struct NumpyType {
  DLDataType dtype{};  // lanes 0: not a type of anyop
};
extern NumpyType g_types[kTypeNumbers];
void InitTypes();

// Fills `view` from an array, in the frequent case in a few instructions. Runs no code of Python's.
// An array that no DLTensor can describe (a stride that is no multiple of the element) is copied
// into `copy` if it is only read. Throws ErrorSet: no array (TypeError); unknown dtype, foreign
// byte order, more than kMaxRank dimensions, read-only memory that is to be written (ValueError).
void ViewOther(PyObject* object, Access access, const ArgumentName& name, View& view, Ref& copy);

// The frequent case: a contiguous array of a known dtype. False for any other, which ViewOther
// looks at.
[[gnu::always_inline]] inline bool ViewDense(PyObject* object, Access access, DLTensor& t) {
  static_assert(sizeof(NumpyType) == 4);
  if (Py_TYPE(object) != &PyArray_Type) return false;
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  const int wanted = NPY_ARRAY_C_CONTIGUOUS | (access == Access::kWrite ? NPY_ARRAY_WRITEABLE : 0);
  if ((PyArray_FLAGS(array) & wanted) != wanted) return false;
  const PyArray_Descr* descr = PyArray_DESCR(array);
  // '>' alone is foreign: numpy_view.cc asserts that the machine is little-endian.
  const unsigned number = unsigned(descr->type_num);
  if (number >= kTypeNumbers || descr->byteorder == '>') return false;
  const std::uint32_t dtype = std::bit_cast<std::uint32_t>(g_types[number].dtype);
  const unsigned rank = unsigned(PyArray_NDIM(array));
  if (!dtype || rank > unsigned(kMaxRank)) return false;
  FillTensor(&t, PyArray_DATA(array), kHostDevice, std::bit_cast<DLDataType>(dtype), int(rank),
             reinterpret_cast<std::int64_t*>(PyArray_DIMS(array)));
  return true;
}

inline void ViewArray(PyObject* object, Access access, const ArgumentName& name, View& view,
                      Ref& copy) {
  if (!ViewDense(object, access, view.tensor)) ViewOther(object, access, name, view, copy);
}

// A fresh array for a result, and its view. Throws ErrorSet; NotAvailable if the dtype needs
// ml_dtypes and it is not installed.
Ref Allocate(DType dtype, int rank, const std::int64_t* shape, View& view);

// A NumPy array over t's memory, which `base` keeps alive. Throws ErrorSet: memory of a device.
Ref ViewAsArray(const DLTensor& t, Access access, Ref base);

// The dtype that an object stands for: 'bf16', 'bfloat16', numpy.float32, numpy.dtype('f4'),
// ml_dtypes.bfloat16. -1, without an exception, for anything else.
int ToDType(PyObject* object);
// The NumPy dtype; a new reference. Imports ml_dtypes where needed.
Ref ToNumpyDType(DType dtype);

}  // namespace anyop::python
