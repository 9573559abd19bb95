// SPDX-License-Identifier: Apache-2.0
// NumPy arrays seen as tensors: the fields of a PyArrayObject are read in place.
#pragma once
#include <cstdint>

#include "anyop/dtype.h"
#include "anyop/signature.h"
#include "python.h"

namespace anyop::python {

// A tensor of one call. `shape` and `strides` are used where the array's own cannot be.
struct View {
  DLTensor tensor;
  std::int64_t strides[kMaxRank];
};

// How a call names the argument in a message: "rms_norm" and "weight", or "caches[2]".
struct ArgumentName {
  const char* op;
  PyObject* name;
  Py_ssize_t element = -1;
  std::string text() const;  // "weight", "caches[2]"
};

enum class Access { kRead, kWrite };

// Numbers of NumPy's types; -1 for what anyop does not have. ml_dtypes is looked up, never
// imported, when its first array arrives.
constexpr int kTypeNumbers = 512;
struct NumpyType {
  DLDataType dtype{};  // lanes 0: not a type of anyop
};
extern NumpyType g_types[kTypeNumbers];
void InitTypes();

// Fills `view` from an array, in the frequent case in a few instructions. An array that no DLTensor
// can describe (a stride that is no multiple of the element) is copied into `copy` if it is only
// read. Throws ErrorSet: no array (TypeError); unknown dtype, foreign byte order, more than
// kMaxRank dimensions, read-only memory that is to be written (ValueError).
void ViewOther(PyObject* object, Access access, const ArgumentName& name, View& view, Ref& copy);

inline void ViewArray(PyObject* object, Access access, const ArgumentName& name, View& view,
                      Ref& copy) {
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  if (Py_TYPE(object) == &PyArray_Type) {
    const PyArray_Descr* descr = PyArray_DESCR(array);
    const int wanted = access == Access::kWrite ? NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_WRITEABLE
                                                : NPY_ARRAY_C_CONTIGUOUS;
    const unsigned number = unsigned(descr->type_num);
    if ((PyArray_FLAGS(array) & wanted) == wanted && number < kTypeNumbers &&
        g_types[number].dtype.lanes && descr->byteorder != '>' && PyArray_NDIM(array) <= kMaxRank)
        [[likely]] {
      view.tensor = {PyArray_DATA(array),
                     {1, 0},
                     PyArray_NDIM(array),
                     g_types[number].dtype,
                     reinterpret_cast<std::int64_t*>(PyArray_DIMS(array)),
                     nullptr,
                     0};
      return;
    }
  }
  ViewOther(object, access, name, view, copy);
}

// A fresh array for a result, and its view. Throws ErrorSet; NotAvailable if the dtype needs
// ml_dtypes and it is not installed.
Ref Allocate(DType dtype, int rank, const std::int64_t* shape, View& view);

// The dtype that an object stands for: 'bf16', 'bfloat16', numpy.float32, numpy.dtype('f4'),
// ml_dtypes.bfloat16. -1, without an exception, for anything else.
int ToDType(PyObject* object);
// The NumPy dtype; a new reference. Imports ml_dtypes where needed.
Ref ToNumpyDType(DType dtype);

}  // namespace anyop::python
