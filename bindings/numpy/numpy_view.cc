// SPDX-License-Identifier: Apache-2.0
#include "numpy_view.h"

#include <array>
#include <bit>

#include "anyop/stream.h"
#include "anyop/tensor.h"

namespace anyop::python {

static_assert(std::endian::native == std::endian::little);

NumpyType g_types[kTypeNumbers];

namespace {

int g_numbers[kDTypes];  // NumPy's type number of each dtype; -1 until ml_dtypes is seen

void SetType(int number, DType dtype) {
  if (number < 0 || number >= kTypeNumbers) return;
  g_types[number].dtype = ToDL(dtype);
}

// NumPy's number of a type by its name or class; -1 where there is none.
int NumberOf(PyObject* type) {
  PyArray_Descr* descr = nullptr;
  if (!type || !PyArray_DescrConverter(type, &descr)) {
    PyErr_Clear();
    return -1;
  }
  const int number = descr->type_num;
  Py_DECREF(descr);
  return number;
}

// Takes the types of ml_dtypes for results.
void LearnForeignTypes(PyObject* ml_dtypes) {
  for (int d = 0; d < kDTypes; ++d) {
    if (g_numbers[d] >= 0 && g_numbers[d] < NPY_USERDEF) continue;
    const Ref type(PyObject_GetAttrString(ml_dtypes, kDTypeRows[d].long_name));
    const int number = NumberOf(type.get());
    if (number < 0) continue;
    g_numbers[d] = number;
    SetType(number, DType(d));
  }
}

// Several packages register a bfloat16 of their own with NumPy, each with another number: so a type
// is known by its name and size.
void LearnForeignType(const PyArray_Descr* descr) {
  const std::string_view full = descr->typeobj->tp_name;
  const std::string_view name = full.substr(full.rfind('.') + 1);
  if (descr->kind != 'V' && descr->kind != 'f') return;
  for (int d = 0; d < kDTypes; ++d) {
    if (name != kDTypeRows[d].long_name || PyDataType_ELSIZE(descr) != Bytes(DType(d))) continue;
    SetType(descr->type_num, DType(d));
    if (g_numbers[d] < 0) g_numbers[d] = descr->type_num;
  }
}

int DTypeOfArray(const PyArray_Descr* descr) {
  const int number = descr->type_num;
  if (number < 0 || number >= kTypeNumbers) return -1;
  if (!g_types[number].dtype.lanes && number >= NPY_USERDEF) LearnForeignType(descr);
  const DLDataType t = g_types[number].dtype;
  return t.lanes ? FromDL(t) : -1;
}

int ToTypeNumber(DType dtype) {
  int& number = g_numbers[int(dtype)];
  if (number >= 0) return number;
  if (KindOf(dtype) == DTypeKind::kPair) {
    Fail(ANYOP_NOT_AVAILABLE, "NumPy has no dtype for " + std::string(Name(dtype)) +
                                  ". Try the call with PyTorch's tensors.");
  }
  const Ref module(PyImport_ImportModule("ml_dtypes"));
  if (!module) {
    ClearOrPass();
    Fail(ANYOP_NOT_AVAILABLE, "an array of " + std::string(Name(dtype)) +
                                  " needs the package ml_dtypes. Try: pip install ml_dtypes");
  }
  LearnForeignTypes(module.get());
  if (number < 0) {
    Fail(ANYOP_NOT_AVAILABLE, "the installed ml_dtypes has no type for " +
                                  std::string(Name(dtype)) + ". Try: pip install -U ml_dtypes");
  }
  return number;
}

// Subclasses pass (numpy.memmap holds weights), unless they mean more than their memory says.
void CheckIsPlain(PyObject* object, const ArgumentName& name) {
  if (!PyArray_Check(object)) RefuseObject(NumpyHost(), object, name);
  if (Py_TYPE(object) == &PyArray_Type) return;
  static PyObject* const mask = PyUnicode_InternFromString("mask");
  if (!_PyType_Lookup(Py_TYPE(object), mask)) return;  // which runs no code of the class
  ThrowTypeError(name.start() + " is a masked array, but masks are not read. Try " + name.text() +
                 ".filled(0).");
}

bool StridesAreWhole(PyArrayObject* array, npy_intp item) {
  for (int i = 0; i < PyArray_NDIM(array); ++i) {
    if (PyArray_STRIDE(array, i) % item) return false;
  }
  return true;
}

// Of NumPy's own class: a subclass would run code of its own when its copy is made, and no code of
// Python's may run once the first tensor was looked at (FillOrder).
Ref PlainCopy(PyArrayObject* array) {
  PyArray_Descr* descr = PyArray_DESCR(array);
  Py_INCREF(descr);
  constexpr int kFlags = NPY_ARRAY_CARRAY | NPY_ARRAY_ENSURECOPY | NPY_ARRAY_ENSUREARRAY;
  return Checked(PyArray_FromArray(array, descr, kFlags));
}

void Fill(PyArrayObject* array, int dtype, View& view) {
  DLTensor& t = view.tensor;
  FillTensor(&t, PyArray_DATA(array), kHostDevice, ToDL(DType(dtype)), PyArray_NDIM(array),
             reinterpret_cast<std::int64_t*>(PyArray_DIMS(array)));
  if (PyArray_FLAGS(array) & NPY_ARRAY_C_CONTIGUOUS) return;
  const npy_intp item = Bytes(DType(dtype));
  for (int i = 0; i < t.ndim; ++i) view.strides[i] = PyArray_STRIDE(array, i) / item;
  t.strides = view.strides;
}

}  // namespace

void InitTypes() {
  static_assert(sizeof(npy_intp) == 8 && sizeof(long) == 8);
  for (int d = 0; d < kDTypes; ++d) {
    const Ref name(PyUnicode_FromString(kDTypeRows[d].long_name));
    const int number = NumberOf(name.get());
    g_numbers[d] = number < NPY_USERDEF ? number : -1;
    SetType(g_numbers[d], DType(d));
  }
  // numpy.int64 is `long` here: arrays of `long long` are read, and none is made.
  SetType(NPY_LONGLONG, DType::kI64);
  SetType(NPY_ULONGLONG, DType::kU64);
}

void ViewOther(PyObject* object, Access access, const ArgumentName& name, View& view, Ref& copy) {
  if (PyArray_IsScalar(object, Generic) && access == Access::kRead) {
    // numpy.float32(1), which NumPy's own functions return for an array without dimensions.
    copy = Checked(PyArray_FromScalar(object, nullptr));
    object = copy.get();
  }
  CheckIsPlain(object, name);
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  const int dtype = DTypeOfArray(PyArray_DESCR(array));
  if (dtype < 0) {
    RefuseDType(object, name);
  }
  if (PyArray_DESCR(array)->byteorder == '>') {
    ThrowValueError(name.start() +
                    " has the bytes of its elements swapped, but must be in this "
                    "machine's order. Try " +
                    name.text() + ".astype(" + name.text() + ".dtype.newbyteorder('=')).");
  }
  if (PyArray_NDIM(array) > kMaxRank) {
    ThrowValueError(name.start() + " has " + std::to_string(PyArray_NDIM(array)) +
                    " dimensions, but must have at most " + std::to_string(kMaxRank) + ".");
  }
  if (access == Access::kWrite && !PyArray_ISWRITEABLE(array)) {
    ThrowValueError(name.start() + " is read-only, but is written. Try a copy.");
  }
  if (!StridesAreWhole(array, Bytes(DType(dtype)))) {
    if (access == Access::kWrite) {
      ThrowValueError(name.start() +
                      " has a stride that is no multiple of its element, but is "
                      "written. Try a copy.");
    }
    copy = PlainCopy(array);
    array = reinterpret_cast<PyArrayObject*>(copy.get());
  }
  Fill(array, dtype, view);
}

Ref Allocate(DType dtype, int rank, const std::int64_t* shape, View& view) {
  auto* dims = const_cast<npy_intp*>(reinterpret_cast<const npy_intp*>(shape));
  PyArray_Descr* descr = PyArray_DescrFromType(ToTypeNumber(dtype));
  if (!descr) throw ErrorSet{};
  Ref array =
      Checked(PyArray_NewFromDescr(&PyArray_Type, descr, rank, dims, nullptr, nullptr, 0, nullptr));
  Fill(reinterpret_cast<PyArrayObject*>(array.get()), int(dtype), view);
  return array;
}

int ToDType(PyObject* object) {
  if (PyUnicode_Check(object)) {
    Py_ssize_t n = 0;
    const char* s = PyUnicode_AsUTF8AndSize(object, &n);
    if (!s) {
      PyErr_Clear();
      return -1;
    }
    const std::string_view name(s, std::size_t(n));
    if (const int own = FindDType(name); own >= 0) return own;  // the usual case
    for (int d = 0; d < kDTypes; ++d) {
      if (kDTypeRows[d].long_name == name) return d;
    }
    return -1;
  }
  if (!PyArray_DescrCheck(object) && !PyType_Check(object)) return -1;
  PyArray_Descr* descr = nullptr;
  if (!PyArray_DescrConverter(object, &descr)) {
    PyErr_Clear();
    return -1;
  }
  const int dtype = descr->byteorder == '>' ? -1 : DTypeOfArray(descr);
  Py_DECREF(descr);
  return dtype;
}

Ref ToNumpyDType(DType dtype) {
  return Checked(reinterpret_cast<PyObject*>(PyArray_DescrFromType(ToTypeNumber(dtype))));
}

Ref ViewAsArray(const DLTensor& t, Access access, Ref base) {
  if (!IsHost(t.device)) {
    ThrowValueError("memory of " + Device(t.device).name() +
                    " cannot be a NumPy array. Try a copy on the CPU.");
  }
  const auto& tensor = static_cast<const Tensor&>(t);
  const npy_intp item = Bytes(t.dtype);
  npy_intp shape[kMaxRank], strides[kMaxRank];
  for (int i = 0; i < t.ndim; ++i) {
    shape[i] = t.shape[i];
    strides[i] = tensor.stride(i) * item;
  }
  static std::int64_t nothing = 0;  // NumPy would allocate for null, which an empty tensor may have
  char* const memory = t.data ? BaseOf(t) : reinterpret_cast<char*>(&nothing);
  auto* dtype = reinterpret_cast<PyArray_Descr*>(ToNumpyDType(tensor.type()).release());
  Ref array =
      Checked(PyArray_NewFromDescr(&PyArray_Type, dtype, t.ndim, shape, strides, memory,
                                   access == Access::kWrite ? NPY_ARRAY_WRITEABLE : 0, nullptr));
  auto* made = reinterpret_cast<PyArrayObject*>(array.get());
  if (PyArray_SetBaseObject(made, base.release()) < 0) throw ErrorSet{};
  return array;
}

}  // namespace anyop::python
