// SPDX-License-Identifier: Apache-2.0
// Inference over integers of a host of Python's: symbolic ones, unknown ones (anyop/symbolic.py).
#include <algorithm>
#include <bit>

#include "bindings/module_functions.h"
#include "op_object.h"
#include "signature/binding.h"
#include "signature/expression.h"
#include "signature/fitted.h"
#include "signature/owned_call.h"
#include "signature/symbolic.h"

namespace anyop::python {
namespace {

// The names that Host.compute knows the operators by; "/" is of floats.
std::string NameOf(NodeOp op, bool is_float) {
  return op == NodeOp::kDiv && !is_float ? "//" : std::string(Symbol(op));
}

// The objects of a call that stand for numbers.
class ObjectNumbers : public Symbols {
 public:
  // host: a symbolic.Host, or None where nothing is computed. unknown: symbolic.UNKNOWN. Both stay
  // the caller's.
  ObjectNumbers(PyObject* host, PyObject* unknown) : host_(host), unknown_(unknown) {}

  Number Compute(NodeOp op, const Number& a, const Number& b) override {
    const Ref x = ToObject(a);
    if (op == NodeOp::kNeg) return ToNumber(Checked(PyNumber_Negative(x.get())));
    if (op == NodeOp::kNot) {
      return ToNumber(Checked(PyObject_CallMethod(host_, "negate", "O", x.get())));
    }
    const Ref y = ToObject(b);
    const std::string name = NameOf(op, a.is_float || b.is_float);
    return ToNumber(
        Checked(PyObject_CallMethod(host_, "compute", "sOO", name.c_str(), x.get(), y.get())));
  }
  bool IsSame(const Number& a, const Number& b) override {
    const Ref x = ToObject(a), y = ToObject(b);
    if (x.get() == y.get()) return true;
    const Ref same = Checked(PyObject_CallMethod(host_, "same", "OO", x.get(), y.get()));
    return IsTrue(same.get());
  }

  // 64 bits that stand for an integer, or for a symbol. An integer whose bits would read as those
  // of a symbol becomes a symbol itself.
  std::int64_t Bits(PyObject* object) {
    const Number n = ToNumber(Ref::Borrow(object));
    if (n.known && !n.is_float && !IsSymbol(n.i)) return n.i;
    return BitsOfSymbol(n.is_unknown() ? 0 : n.known ? Add(Ref::Borrow(object)) : n.symbol);
  }
  double FloatOfBits(PyObject* object) {
    const Number n = ToNumber(Ref::Borrow(object));
    if (n.known && !IsSymbol(std::bit_cast<std::int64_t>(n.f))) return n.f;
    return std::bit_cast<double>(Bits(object));
  }
  // The same for a size. One below 0 is unknown.
  std::int64_t Size(PyObject* object) {
    const std::int64_t bits = Bits(object);
    return IsSymbol(bits) && SymbolOf(bits) != 0 ? bits : std::max<std::int64_t>(bits, -1);
  }
  Ref SizeObject(std::int64_t size) const {
    if (size == -1) return Ref::Borrow(unknown_);
    return IsSymbol(size) ? Ref::Borrow(table_[SymbolOf(size) - 1].get())
                          : Checked(PyLong_FromLongLong(size));
  }
  Ref ToObject(const Number& n) const {
    if (n.symbol) return Ref::Borrow(table_[n.symbol - 1].get());
    return Checked(n.is_float ? PyFloat_FromDouble(n.f) : PyLong_FromLongLong(n.i));
  }
  bool IsUnknown(PyObject* object) const { return object == unknown_; }

 private:
  static bool IsTrue(PyObject* object) {
    const int truth = PyObject_IsTrue(object);
    if (truth < 0) throw ErrorSet{};
    return truth;
  }
  std::uint32_t Add(Ref object) {
    table_.push_back(std::move(object));
    return std::uint32_t(table_.size());
  }
  // Only exact types of Python are known numbers: a host may derive its symbols from int.
  Number ToNumber(Ref object) {
    if (object.get() == unknown_) return Unknown();
    if (PyBool_Check(object.get())) return Int(object.get() == Py_True);
    if (PyFloat_CheckExact(object.get())) return Float(PyFloat_AS_DOUBLE(object.get()));
    if (PyLong_CheckExact(object.get())) {
      int is_beyond = 0;
      const long long v = PyLong_AsLongLongAndOverflow(object.get(), &is_beyond);
      // The evaluator treats INT64_MIN as too large, so that no negation overflows.
      if (!is_beyond && v != INT64_MIN) return Int(v);
    }
    Number n;
    n.symbol = Add(std::move(object));
    return n;
  }

  PyObject *const host_, *const unknown_;
  std::vector<Ref> table_;  // by symbol, from 1
};

// The contract of an operator, or of a signature that is no operator's.
class GivenContract {
 public:
  explicit GivenContract(PyObject* op) {
    if (PyUnicode_Check(op)) {
      const std::string text = ToText(op, "the operator");
      if (text.find('(') != text.npos) own_ = ParseContract(text);
    }
    contract_ = own_ ? own_.get() : ToOperator(op).op->contract.get();
  }
  const Contract& operator*() const { return *contract_; }

 private:
  std::unique_ptr<Contract> own_;
  const Contract* contract_;
};

Ref RequiredAttribute(PyObject* object, const char* name) {
  return Checked(PyObject_GetAttrString(object, name));
}

DType ToDTypeNamed(PyObject* object) {
  const std::string name = ToText(object, "a dtype");
  const int dtype = FindDType(name);
  if (dtype < 0) ThrowValueError("no dtype is called " + name + ".");
  return DType(dtype);
}

// A call whose tensors are symbolic.TensorType.
class TypedCall {
 public:
  TypedCall(const Contract& contract, PyObject* args, ObjectNumbers& numbers)
      : contract_(contract), numbers_(numbers), call_(contract) {
    const Ref list = Checked(PySequence_Tuple(args));
    if (PyTuple_GET_SIZE(list.get()) != contract.n_params()) {
      ThrowTypeError(contract.name + ": every parameter needs an entry.");
    }
    for (int i = 0; i < contract.n_params(); ++i) Set(i, PyTuple_GET_ITEM(list.get(), i));
  }
  const anyop_value* frame() const { return call_.frame(); }
  std::uint64_t unknown_params() const { return unknown_params_; }

 private:
  void Set(int i, PyObject* object) {
    const Param& p = contract_.forms[0].params[std::size_t(i)];
    if (object == Py_None) return call_.Clear(i);
    if (numbers_.IsUnknown(object)) return SetUnknown(i, p);
    switch (p.kind) {
      case ParamKind::kTensor: {
        const auto [dtype, shape] = ToType(object);
        return call_.SetTensor(i, dtype, shape);
      }
      case ParamKind::kTensors: {
        std::vector<std::pair<DType, Shape>> types;
        ForEach(object, [&](PyObject* t) { types.push_back(ToType(t)); });
        return call_.SetTensors(i, types);
      }
      case ParamKind::kInts: {
        std::vector<std::int64_t> list;
        ForEach(object, [&](PyObject* x) { list.push_back(numbers_.Bits(x)); });
        return call_.SetInts(i, std::move(list));
      }
      case ParamKind::kFloats: {
        std::vector<double> list;
        ForEach(object, [&](PyObject* x) { list.push_back(numbers_.FloatOfBits(x)); });
        return call_.SetFloats(i, std::move(list));
      }
      case ParamKind::kWord:
        return call_.SetWord(i, ToText(object, "a word"));
      case ParamKind::kDType:
        return call_.SetDType(i, ToDTypeNamed(object));
      case ParamKind::kFloat:
        return call_.SetFloat(i, numbers_.FloatOfBits(object));
      default:
        call_[i] = WholeValue(TagOf(p.kind), numbers_.Bits(object));
    }
  }
  // An argument that is given, but whose value nobody knows: any value of its kind stands in, as
  // InferPartial does not look at it.
  void SetUnknown(int i, const Param& p) {
    if (IsTensor(p.kind)) {
      ThrowTypeError(contract_.name + ": " + std::string(p.name) +
                     " is unknown, but must be a TensorType: its shape may be None.");
    }
    unknown_params_ |= 1ull << i;
    if (p.kind == ParamKind::kWord) return call_.SetWord(i, "");
    if (p.kind == ParamKind::kDType) return call_.SetDType(i, DType{});
    if (p.kind == ParamKind::kInts) return call_.SetInts(i, {});
    if (p.kind == ParamKind::kFloats) return call_.SetFloats(i, {});
    if (p.kind == ParamKind::kFloat) return call_.SetFloat(i, 0);
    p.kind == ParamKind::kBool ? call_.SetBool(i, false) : call_.SetInt(i, 0);
  }
  template <class F>
  static void ForEach(PyObject* sequence, F&& f) {
    const Ref list = Checked(PySequence_Tuple(sequence));
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(list.get()); ++k) {
      f(PyTuple_GET_ITEM(list.get(), k));
    }
  }
  std::pair<DType, Shape> ToType(PyObject* type) {
    const DType dtype = ToDTypeNamed(RequiredAttribute(type, "dtype").get());
    const Ref sizes = RequiredAttribute(type, "shape");
    if (sizes.get() == Py_None) return {dtype, UnknownRank()};
    Shape shape;
    ForEach(sizes.get(), [&](PyObject* size) { shape.push_back(numbers_.Size(size)); });
    return {dtype, shape};
  }

  const Contract& contract_;
  ObjectNumbers& numbers_;
  OwnedCall call_;
  std::uint64_t unknown_params_ = 0;
};

Ref ResultTuple(const ResultShape& result, const ObjectNumbers& numbers) {
  Ref shape = Ref::Borrow(Py_None);
  if (result.rank >= 0) {
    shape = Checked(PyTuple_New(result.rank));
    for (int i = 0; i < result.rank; ++i) {
      PyTuple_SET_ITEM(shape.get(), i, numbers.SizeObject(result.shape[i]).release());
    }
  }
  const Ref dtype = ToPython(Name(result.dtype));
  return Checked(PyTuple_Pack(2, dtype.get(), shape.get()));
}

// infer(op, args, host, UNKNOWN): see the stub.
PyObject* InferShapes(PyObject*, PyObject* arguments) {
  return Guarded([&] {
    PyObject *op, *args, *host, *unknown;
    if (!PyArg_ParseTuple(arguments, "OOOO", &op, &args, &host, &unknown)) throw ErrorSet{};
    const GivenContract contract(op);
    ObjectNumbers numbers(host, unknown);
    const TypedCall call(*contract, args, numbers);
    ResultShape shapes[kMaxResults];
    std::string error;
    const int form =
        InferPartial(*contract, call.frame(), call.unknown_params(), shapes, &error, &numbers);
    if (form < 0) ThrowValueError((*contract).name + ": " + error);
    const Ref results = Checked(PyTuple_New((*contract).n_results()));
    for (int i = 0; i < (*contract).n_results(); ++i) {
      PyTuple_SET_ITEM(results.get(), i, ResultTuple(shapes[i], numbers).release());
    }
    const Ref required = Checked(PyList_New(0));
    for (const Requirement& r : numbers.requirements) {
      const Ref holds = numbers.ToObject(r.holds),
                text = ToPython((*contract).name + ": " + r.text);
      const Ref pair = Checked(PyTuple_Pack(2, holds.get(), text.get()));
      if (PyList_Append(required.get(), pair.get()) < 0) throw ErrorSet{};
    }
    return Checked(Py_BuildValue("iOO", form, results.get(), required.get())).release();
  });
}

// choose_form(op, args, UNKNOWN): see the stub.
PyObject* ChooseForm(PyObject*, PyObject* arguments) {
  return Guarded([&] {
    PyObject *op, *args, *unknown;
    if (!PyArg_ParseTuple(arguments, "OOO", &op, &args, &unknown)) throw ErrorSet{};
    const GivenContract contract(op);
    ObjectNumbers numbers(Py_None, unknown);
    const TypedCall call(*contract, args, numbers);
    int form = 0;
    const auto takes = [&] {
      return FormFits(*contract, form, call.frame(), call.unknown_params()) != Fit::kNo;
    };
    while (form < int((*contract).forms.size()) && !takes()) ++form;
    if (form == int((*contract).forms.size())) {
      ThrowValueError((*contract).name + ": no form takes these words and ranks.");
    }
    return Checked(PyLong_FromLong(form)).release();
  });
}

PyMethodDef g_infer_methods[] = {
    {"infer", InferShapes, METH_VARARGS, "Results and requirements over a host's integers."},
    {"choose_form", ChooseForm, METH_VARARGS, "The form that takes the words and ranks of a call."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void AddInferFunctions(PyObject* module) {
  if (PyModule_AddFunctions(module, g_infer_methods) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
