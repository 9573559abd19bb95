// SPDX-License-Identifier: Apache-2.0
#include "convert.h"

#include <numpy/arrayscalars.h>

#include <algorithm>

namespace anyop::python {
namespace {

std::string Start(const OperatorInfo& info, const Parameter& param, Py_ssize_t element = -1) {
  return info.Message(ArgumentName{"", param.name, element}.text());
}

// An argument and its place, for messages; a call that is right makes no text.
struct Site {
  const OperatorInfo& info;
  const Parameter& param;
  Py_ssize_t element = -1;

  [[noreturn]] void Refuse(PyObject* object, const std::string& wanted) const {
    RefuseInWordsOfTaker(object);
    const Host* host = HostOfTensor(object);
    const std::string advice = host ? host->number_advice(object) : "";
    ThrowTypeError(Start(info, param, element) + " is " + Repr(object) + ", but must be " + wanted +
                   "." + (advice.empty() ? "" : " " + advice + "."));
  }
  [[noreturn]] void RefuseValue(PyObject* object, const std::string& wanted) const {
    if (PyErr_Occurred()) ClearOrPass();
    ThrowValueError(Start(info, param, element) + " is " + Repr(object) + ", but must be " +
                    wanted + ".");
  }
};

// An array or tensor of bools, of any host.
bool HoldsBools(PyObject* object) {
  if (PyArray_Check(object)) {
    return PyArray_TYPE(reinterpret_cast<PyArrayObject*>(object)) == NPY_BOOL;
  }
  if (!HostOfTensor(object)) return false;
  const Ref dtype(PyObject_GetAttrString(object, "dtype"));
  if (!dtype) ClearOrPass();
  return dtype && DTypeOfAnyHost(dtype.get()) == int(DType::kBool);
}

// An array or tensor without dimensions counts as its element. Those with dimensions are no
// numbers, whatever their size; truth values are none either, and complex ones, of which NumPy
// would give half.
bool IsNoNumber(PyObject* object) {
  if (PyBool_Check(object) || PyArray_IsScalar(object, Bool)) return true;
  if (PyArray_IsScalar(object, ComplexFloating)) return true;
  if (HoldsBools(object)) return true;
  if (!PyArray_Check(object)) return false;
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  return PyArray_NDIM(array) > 0 || PyArray_ISCOMPLEX(array);
}

// Runs f, which calls code of Python's. Its errors are told as those of the argument, `wanted`.
template <class F>
Ref Ask(PyObject* object, const Site& site, const std::string& wanted, F&& f) {
  CheckStack(site.info.name);
  Ref answer(WithPython(f));
  if (!answer) {
    ClearOrPass();
    site.Refuse(object, wanted);
  }
  return answer;
}

std::int64_t ToInt(PyObject* object, const Site& site) {
  Ref index;
  if (!PyLong_CheckExact(object)) {
    if (IsNoNumber(object) || !PyIndex_Check(object) || IsSymbolicNumber(object)) {
      site.Refuse(object, "an int");
    }
    index = Ask(object, site, "an int", [&] { return PyNumber_Index(object); });
  }
  int overflow = 0;  // unlike an OverflowError, it leaves no exception to clear
  const long long value = PyLong_AsLongLongAndOverflow(index ? index.get() : object, &overflow);
  if (overflow) site.RefuseValue(object, "an int of at most 64 bits");
  return value;
}

double ToFloat(PyObject* object, const Site& site) {
  if (PyFloat_Check(object)) return PyFloat_AS_DOUBLE(object);
  const PyNumberMethods* number = Py_TYPE(object)->tp_as_number;
  if (IsNoNumber(object) || !number || !(number->nb_float || number->nb_index) ||
      IsSymbolicNumber(object)) {
    site.Refuse(object, "a number");
  }
  CheckStack(site.info.name);
  const double value = WithPython([&] { return PyFloat_AsDouble(object); });
  if (value == -1.0 && PyErr_Occurred()) {
    if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
      site.RefuseValue(object, "a number that a double holds");
    }
    ClearOrPass();
    site.Refuse(object, "a number");
  }
  return value;
}

bool ToBool(PyObject* object, const Site& site) {
  if (object == Py_True) return true;
  if (object == Py_False) return false;
  if (PyArray_IsScalar(object, Bool)) return PyArrayScalar_VAL(object, Bool);
  if (!HoldsBools(object) || IsSymbolicNumber(object)) site.Refuse(object, "True or False");
  const Ref rank =
      Ask(object, site, "True or False", [&] { return PyObject_GetAttrString(object, "ndim"); });
  if (PyLong_AsLong(rank.get()) != 0) site.Refuse(object, "True or False");
  CheckStack(site.info.name);
  const int truth = WithPython([&] { return PyObject_IsTrue(object); });
  if (truth >= 0) return truth;
  ClearOrPass();
  site.Refuse(object, "True or False");
}

anyop_value ToWord(PyObject* object, const Site& site) {
  const std::vector<Word>& words = site.param.words;
  // A literal of the caller is interned, as the words are: most often it is the same object.
  for (const Word& word : words) {
    if (word.text == object) return word.value;
  }
  if (!PyUnicode_Check(object)) site.Refuse(object, "a word, as a str");
  for (const Word& word : words) {
    if (PyUnicode_Compare(word.text, object) == 0) return word.value;
  }
  const int index = int(&site.param - site.info.params.data());
  ThrowValueError(
      site.info.Message(WordError(*site.info.op->contract, index, ToNameShown(object))));
}

DType ToDTypeArgument(PyObject* object, const Site& site) {
  if (const int dtype = DTypeOfAnyHost(object); dtype >= 0) return DType(dtype);
  std::string names;
  for (const DTypeRow& row : kDTypeRows) {
    names += std::string(names.empty() ? "" : ", ") + std::string(row.name);
  }
  const bool looks_right =
      PyUnicode_Check(object) || PyArray_DescrCheck(object) || PyType_Check(object);
  if (looks_right) site.RefuseValue(object, "one of the dtypes " + names);
  site.Refuse(object, "a dtype: a name like 'bf16', or a NumPy dtype");
}

// The elements, as a tuple that nobody else can change during the call. Borrowed from memory.
PyObject* ToTuple(PyObject* object, const Site& site, const char* wanted, CallMemory& memory) {
  if (PyTuple_CheckExact(object)) return object;
  if (PyUnicode_Check(object) || PyBytes_Check(object) || !PySequence_Check(object)) {
    site.Refuse(object, wanted);
  }
  Ref tuple = Ask(object, site, wanted, [&] { return PySequence_Tuple(object); });
  PyObject* borrowed = tuple.get();
  memory.Keep(std::move(tuple));
  return borrowed;
}

void ConvertInts(PyObject* object, const Site& site, CallMemory& memory, anyop_value& value) {
  PyObject* tuple = ToTuple(object, site, "a list of ints", memory);
  const Py_ssize_t n = PyTuple_GET_SIZE(tuple);
  auto* list = memory.Array<std::int64_t>(std::size_t(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    list[i] = ToInt(PyTuple_GET_ITEM(tuple, i), {site.info, site.param, i});
  }
  value = IntsValue(list, std::size_t(n));
}

void ConvertFloats(PyObject* object, const Site& site, CallMemory& memory, anyop_value& value) {
  PyObject* tuple = ToTuple(object, site, "a list of numbers", memory);
  const Py_ssize_t n = PyTuple_GET_SIZE(tuple);
  auto* list = memory.Array<double>(std::size_t(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    list[i] = ToFloat(PyTuple_GET_ITEM(tuple, i), {site.info, site.param, i});
  }
  value = FloatsValue(list, std::size_t(n));
}

void ConvertTensors(PyObject* object, const Site& site, CallMemory& memory, anyop_value& value) {
  const std::string wanted = "a list of " + memory.host().names.noun + "s";
  // A tensor is a sequence too, of its rows, which nobody means.
  if (HostOfTensor(object)) site.Refuse(object, wanted);
  memory.Add({&site.param, ToTuple(object, site, wanted.c_str(), memory), &value});
}

}  // namespace

void ConvertOtherArray(const ArgumentName& name, Access access, PyObject* object,
                       CallMemory& memory, View& view) {
  Ref copy;
  ViewOther(object, access, name, view, copy);
  if (copy && PyArray_Check(object)) memory.set_has_copies();  // a scalar is no copy of an array
  memory.Keep(std::move(copy));
}

void ConvertOther(const OperatorInfo& info, const Parameter& param, PyObject* object,
                  CallMemory& memory, anyop_value& value) {
  const Site site{info, param};
  switch (param.kind) {
    case ParamKind::kFloat:
      value = FloatValue(ToFloat(object, site));
      break;
    case ParamKind::kInt:
      value = IntValue(ToInt(object, site));
      break;
    case ParamKind::kBool:
      value = BoolValue(ToBool(object, site));
      break;
    case ParamKind::kWord:
      value = ToWord(object, site);
      break;
    case ParamKind::kDType:
      value = DTypeValue(ToDTypeArgument(object, site));
      break;
    case ParamKind::kInts:
      ConvertInts(object, site, memory, value);
      break;
    case ParamKind::kFloats:
      ConvertFloats(object, site, memory, value);
      break;
    default:
      ConvertTensors(object, site, memory, value);
      break;
  }
}

anyop_value ToNumberValue(PyObject* object, const std::string& what) {
  const bool is_of_numpy =
      PyArray_IsScalar(object, Generic) ||
      (PyArray_Check(object) && !PyArray_NDIM(reinterpret_cast<PyArrayObject*>(object)));
  if (is_of_numpy) {
    const Ref item = Checked(PyObject_CallMethod(object, "item", nullptr));
    if (!PyArray_IsScalar(item.get(), Generic)) return ToNumberValue(item.get(), what);
  }
  if (PyBool_Check(object)) return BoolValue(object == Py_True);
  if (PyFloat_Check(object)) return FloatValue(PyFloat_AS_DOUBLE(object));
  if (!PyLong_Check(object)) {
    ThrowTypeError(what + " is " + Repr(object) + ", but must be a number.");
  }
  int overflow = 0;
  const long long i = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow) {
    ThrowValueError(what + " is " + Repr(object) + ", but must be an int of at most 64 bits.");
  }
  return IntValue(i);
}

}  // namespace anyop::python
