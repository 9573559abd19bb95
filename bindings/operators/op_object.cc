// SPDX-License-Identifier: Apache-2.0
#include "op_object.h"

#include <cstddef>

#include "anyop/value.h"
#include "signature/defaults.h"
#include "signature/facts.h"

namespace anyop::python {

PyObject* Intern(std::string_view text) {
  PyObject* made = ToPython(text).release();
  PyUnicode_InternInPlace(&made);
  return made;
}

PyObject* g_host_keywords[kHostKeywords];

namespace {

// dict: full name -> builtin function, in the order in which operators were registered
PyObject* g_operators = nullptr;

Parameter MakeParameter(const Contract& contract, int index) {
  const Param& param = contract.forms[0].params[std::size_t(index)];
  Parameter made{Intern(param.name), param.kind, param.is_optional, false, param.is_mut, {}, {}};
  if (param.kind != ParamKind::kWord) return made;
  for (const std::string& word : contract.words[std::size_t(index)]) {
    made.words.push_back({Intern(word), WordValue(word, int(made.words.size()))});
  }
  return made;
}

OperatorInfo* MakeInfo(Operator& op) {
  auto* info = new OperatorInfo;
  const Form& form = op.contract->forms[0];
  const Facts facts = FactsOf(*op.contract);
  info->op = &op;
  info->name = op.display_name();
  info->n_params = op.n_params;
  info->n_results = op.n_results;
  info->takes_like = !facts.needs_tensor;
  for (int i = 0; i < op.n_params; ++i) {
    info->params.push_back(MakeParameter(*op.contract, i));
    Parameter& p = info->params.back();
    p.is_required = !DefaultValue(*op.contract, i, &p.default_value);
    if (p.kind == ParamKind::kTensor && info->first_tensor < 0) info->first_tensor = i;
  }
  FillOrder(*info);
  for (int r = 0; r < op.n_results; ++r) {
    const Result& result = form.results[std::size_t(r)];
    info->result_names.push_back(Intern(result.name));
    info->is_declinable[r] = result.is_optional;
    info->declined_without[r] = std::int8_t(facts.declined_without[std::size_t(r)]);
  }
  info->python_name = op.contract->name;
  const std::string signature = TextSignature(*info);
  info->doc = (signature.empty() ? "" : op.contract->name + signature + "\n--\n\n") + DocText(op);
  return info;
}

// pickle writes a builtin function as getattr(self, name), so `self` has it as an attribute: who
// reads the pickle gets the function of that name of its own process.
PyObject* GetOperatorAttribute(PyObject* self, PyObject* name) {
  return Guarded([&]() -> PyObject* {
    const OperatorInfo& info = *reinterpret_cast<OpObject*>(self)->info;
    if (PyUnicode_CompareWithASCIIString(name, info.python_name.c_str()) == 0) {
      PyObject* function = PyDict_GetItemString(Functions(), info.op->name.c_str());
      return Ref::Borrow(function).release();
    }
    return PyObject_GenericGetAttr(self, name);
  });
}

PyObject* ReduceOperator(PyObject* self, PyObject*) {
  return Guarded([&] {
    const OperatorInfo& info = *reinterpret_cast<OpObject*>(self)->info;
    const Ref module = Checked(PyImport_ImportModule("anyop._anyop"));
    const Ref find = Checked(PyObject_GetAttrString(module.get(), "op_object"));
    return Py_BuildValue("O(s)", find.get(), info.op->name.c_str());
  });
}

PyObject* ShowOperator(PyObject* self) {
  return PyUnicode_FromFormat("<operator %s>",
                              reinterpret_cast<OpObject*>(self)->info->op->name.c_str());
}

PyMethodDef g_op_methods[] = {{"__reduce__", ReduceOperator, METH_NOARGS, nullptr},
                              {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyTypeObject* g_op_type = nullptr;
static ChooseCall g_choose_call = nullptr;

void FillOrder(OperatorInfo& info) {
  for (const bool are_tensors : {false, true}) {
    for (int i = 0; i < info.n_params; ++i) {
      const Parameter& param = info.params[std::size_t(i)];
      const bool is_tensor = param.kind == ParamKind::kTensor;
      if (is_tensor == are_tensors) info.order.push_back({&param, i});
    }
  }
}

void InitOpType(ChooseCall choose) {
  g_choose_call = choose;
  static PyType_Slot slots[] = {
      {Py_tp_doc, const_cast<char*>("The `self` of an operator's builtin function.")},
      {Py_tp_repr, reinterpret_cast<void*>(&ShowOperator)},
      {Py_tp_getattro, reinterpret_cast<void*>(&GetOperatorAttribute)},
      {Py_tp_methods, g_op_methods},
      {0, nullptr}};
  static PyType_Spec spec = {"anyop.Op", sizeof(OpObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  g_op_type = reinterpret_cast<PyTypeObject*>(Checked(PyType_FromSpec(&spec)).release());
  constexpr const char* kNames[kHostKeywords] = {"out", "policy", "like"};
  for (int i = 0; i < kHostKeywords; ++i) g_host_keywords[i] = Intern(kNames[i]);
  g_operators = Checked(PyDict_New()).release();
}

Ref ToObject(const anyop_value& v) {
  switch (v.tag) {
    case ANYOP_BOOL:
      return Ref::Borrow(v.i ? Py_True : Py_False);
    case ANYOP_INT:
      return Checked(PyLong_FromLongLong(v.i));
    case ANYOP_FLOAT:
      return Checked(PyFloat_FromDouble(v.f));
    case ANYOP_WORD:
      return ToPython(std::string_view(v.s, v.count));
    case ANYOP_INTS:
      return ListOf(v.is, v.count, [](auto i) { return Checked(PyLong_FromLongLong(i)); });
    case ANYOP_FLOATS:
      return ListOf(v.fs, v.count, [](double f) { return Checked(PyFloat_FromDouble(f)); });
    default:
      return Ref::Borrow(Py_None);
  }
}

Ref MakeFunction(Operator& op) {
  OperatorInfo* info = MakeInfo(op);
  info->method = {info->python_name.c_str(), AsMethod(g_choose_call(*info)),
                  METH_FASTCALL | METH_KEYWORDS, info->doc.c_str()};
  OpObject* self = PyObject_New(OpObject, g_op_type);
  if (!self) throw ErrorSet{};
  self->info = info;
  const Ref owned(reinterpret_cast<PyObject*>(self));
  const Ref module = ToPython(op.library == "anyop" ? "anyop" : "anyop.ops." + op.library);
  return Checked(PyCFunction_NewEx(&info->method, owned.get(), module.get()));
}

PyObject* Functions() {
  for (Operator* op : OperatorsFrom(std::size_t(PyDict_GET_SIZE(g_operators)))) {
    const Ref name = ToPython(op->name);
    // Making a function may run code of Python's, and with it other threads that made it first.
    if (PyDict_Contains(g_operators, name.get())) continue;
    const Ref function = MakeFunction(*op);
    if (!PyDict_SetDefault(g_operators, name.get(), function.get())) throw ErrorSet{};
  }
  return g_operators;
}

OperatorInfo& ToOperator(PyObject* object) {
  if (PyUnicode_Check(object)) {
    const Operator* op = Find(ToText(object, "op"));
    object = PyDict_GetItemString(Functions(), op->name.c_str());
  }
  PyObject* self = object && PyCFunction_Check(object) ? PyCFunction_GET_SELF(object) : object;
  if (self && Py_TYPE(self) == g_op_type) return *reinterpret_cast<OpObject*>(self)->info;
  ThrowTypeError("op is " + Repr(object) +
                 ", but must be an operator or its name. Try anyop.specs() for the names.");
}

PyTypeObject* ResultType(OperatorInfo& info) {
  if (info.result_type) return info.result_type;
  const Ref module = Checked(PyImport_ImportModule("anyop._results"));
  const Ref make = Checked(PyObject_GetAttrString(module.get(), "type_of"));
  const Ref names = Checked(PyTuple_New(info.n_results));
  for (int r = 0; r < info.n_results; ++r) {
    PyTuple_SET_ITEM(names.get(), r, Ref::Borrow(info.result_names[std::size_t(r)]).release());
  }
  const Ref name = ToPython(info.op->name);
  const Ref type =
      Checked(PyObject_CallFunctionObjArgs(make.get(), name.get(), names.get(), nullptr));
  if (!info.result_type) {  // else another thread made it meanwhile
    info.result_type = reinterpret_cast<PyTypeObject*>(Ref::Borrow(type.get()).release());
  }
  return info.result_type;
}

}  // namespace anyop::python
