// SPDX-License-Identifier: Apache-2.0
#include "bound_call.h"

#include <algorithm>

#include "anyop/runtime.h"
#include "anyop/scope.h"
#include "anyop/value.h"
#include "call.h"
#include "hosting/bound_call.h"
#include "hosting/call_text.h"
#include "raised.h"
#include "results.h"

namespace anyop::python {
namespace {

struct BoundCallObject {
  PyObject_HEAD const BoundCall* call;
};
PyTypeObject* g_bound_call_type;

const BoundCall& CallOf(PyObject* self) { return *reinterpret_cast<BoundCallObject*>(self)->call; }

// ---- Binding.

// The dtype that stands for a tensor: its name, or the dtype of any object that has one. -1 if
// anyop has no such dtype.
int DTypeOfTensor(PyObject* object) {
  if (PyUnicode_Check(object)) return ToDType(object);
  Ref dtype(PyObject_GetAttrString(object, "dtype"));
  if (!dtype) {
    ClearOrPass();
    return -1;
  }
  const int known = ToDType(dtype.get());
  if (known >= 0) return known;
  // ToDType knows NumPy's objects. Those of frameworks are known by their text, "torch.bfloat16".
  const Ref shown = Checked(PyObject_Str(dtype.get()));
  std::string name = ToText(shown.get(), "a dtype");
  name.erase(0, name.rfind('.') + 1);
  return ToDType(ToPython(name).get());
}

// The frame of a call whose tensors are nothing but dtypes.
class BindingFrame {
 public:
  BindingFrame(const OperatorInfo& info, const Slots& slots) : info_(info) {
    for (const auto& [param, i] : info.order) {
      PyObject* object = slots[i];
      if (!object && param->is_required) RefuseMissing(info, *param);
      if (!object) {
        frame[i] = param->default_value;
      } else if (object == Py_None && param->is_optional) {
        frame[i] = {};
      } else if (IsTensor(param->kind)) {
        SetTensors(*param, object, frame[i]);
      } else {
        ConvertOther(info, *param, object, memory_, frame[i]);
      }
    }
    FindGiven(info, slots.out, given);
  }

  anyop_value frame[kMaxParams + kMaxResults];
  PyObject* given[kMaxResults];

 private:
  const DLTensor* Tensor(const Parameter& param, PyObject* object) {
    const int dtype = DTypeOfTensor(object);
    if (dtype < 0) {
      ThrowTypeError(
          info_.Message(ToText(param.name, "a name") + " is " + Repr(object) +
                        ", but must be a tensor of a dtype that anyop has, or the name of one."));
    }
    DLTensor& t = *memory_.Array<DLTensor>(1);
    FillTensor(&t, nullptr, kHostDevice, ToDL(DType(dtype)), -1, nullptr);
    return &t;
  }
  void SetTensors(const Parameter& param, PyObject* object, anyop_value& value) {
    if (param.kind == ParamKind::kTensor) {
      value = TensorValue(Tensor(param, object));
      return;
    }
    const Ref tuple = Checked(PySequence_Tuple(object));
    const auto n = std::size_t(PyTuple_GET_SIZE(tuple.get()));
    auto* list = memory_.Array<const DLTensor*>(n);
    for (std::size_t k = 0; k < n; ++k) {
      list[k] = Tensor(param, PyTuple_GET_ITEM(tuple.get(), Py_ssize_t(k)));
    }
    value = TensorsValue(list, n);
  }

  const OperatorInfo& info_;
  CallMemory memory_{nullptr, nullptr};
};

// bound_call(op, *args, out=None, policy=None, **kwargs): see the stub.
PyObject* Bind(PyObject*, PyObject* const* args, Py_ssize_t n_args, PyObject* keywords) {
  return Guarded([&] {
    if (n_args < 1) ThrowTypeError("bound_call: op is missing.");
    const OperatorInfo& info = ToOperator(args[0]);
    Slots slots;
    Sort(info, args + 1, n_args - 1, keywords, slots);
    const BindingFrame bound(info, slots);
    Scope scope;
    if (slots.policy) scope.policy(ToText(slots.policy, "policy"));
    return BindCall(info, bound.frame, bound.given).release();
  });
}

PyObject* FindByText(PyObject*, PyObject* text) {
  return Guarded([&] {
    return MakeBoundCallObject(FindBoundCall(ToText(text, "find_bound_call: text"))).release();
  });
}

// ---- What a bound call tells.

Ref DTypeName(int dtype) { return dtype < 0 ? Ref::Borrow(Py_None) : ToPython(Name(DType(dtype))); }
template <class T, class F>
Ref TupleOf(std::span<const T> items, F&& convert) {
  Ref tuple = Checked(PyTuple_New(Py_ssize_t(items.size())));
  for (std::size_t i = 0; i < items.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), Py_ssize_t(i), Checked(convert(items[i])).release());
  }
  return tuple;
}
Ref Ints(const std::vector<int>& numbers) {
  return TupleOf(std::span(numbers), [](int n) { return PyLong_FromLong(n); });
}

PyObject* GetText(PyObject* self, void*) {
  return Guarded([&] { return ToPython(CallOf(self).text()).release(); });
}
// A value of a call as Python has it; a tensor is its dtype.
Ref ArgumentOf(const anyop_value& v) {
  const auto dtype = [](const DLTensor* t) { return DTypeName(FromDL(t->dtype)); };
  if (v.tag == ANYOP_TENSOR) return dtype(v.t);
  if (v.tag == ANYOP_DTYPE) return DTypeName(int(v.i));
  if (v.tag != ANYOP_TENSORS) return ToObject(v);
  return TupleOf(std::span(v.ts, v.count), [&](const DLTensor* t) { return dtype(t).release(); });
}
PyObject* GetArguments(PyObject* self, void*) {
  return Guarded([&] {
    return TupleOf(CallOf(self).arguments(),
                   [](const anyop_value& v) { return ArgumentOf(v).release(); })
        .release();
  });
}
PyObject* ContractOf(PyObject* self, void*) {
  return Guarded([&] { return ToPython(CallOf(self).contract()).release(); });
}
PyObject* ScopeOf(PyObject* self, void*) {
  return Guarded([&] { return ToPython(ScopeText(CallOf(self).scope())).release(); });
}
PyObject* GetInputs(PyObject* self, void*) {
  return Guarded([&] {
    return TupleOf(CallOf(self).inputs(),
                   [](const BoundInput& i) {
                     return Py_BuildValue("(sOO)", i.name.c_str(), DTypeName(int(i.dtype)).get(),
                                          i.is_written ? Py_True : Py_False);
                   })
        .release();
  });
}
PyObject* ResultsOf(PyObject* self, void*) {
  return Guarded([&] {
    return TupleOf(CallOf(self).results(),
                   [](const BoundResult& r) {
                     return Py_BuildValue("(sOO)", r.name.c_str(), DTypeName(r.dtype).get(),
                                          Ints(r.over).get());
                   })
        .release();
  });
}

// ---- Inference.

// ("f32" or None, shape or None); a size of None or -1 is unknown. shape: room for kMaxRank sizes.
DLTensor ToUnknown(PyObject* pair, std::int64_t* shape) {
  PyObject *dtype, *sizes;
  if (!PyArg_ParseTuple(pair, "OO;infer: an input must be (dtype or None, shape or None)", &dtype,
                        &sizes)) {
    throw ErrorSet{};
  }
  DLTensor t = MakeDLTensor(nullptr, kHostDevice, {}, -1, shape);
  if (dtype != Py_None) {
    const int known = ToDType(dtype);
    if (known < 0) ThrowValueError("infer: " + Repr(dtype) + " is no dtype of anyop's.");
    t.dtype = ToDL(DType(known));
  }
  if (sizes == Py_None) return t;
  const Ref tuple = Checked(PySequence_Tuple(sizes));
  const Py_ssize_t n = PyTuple_GET_SIZE(tuple.get());
  if (n > kMaxRank) ThrowValueError("infer: a tensor has at most 8 dimensions.");
  t.ndim = int(n);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* size = PyTuple_GET_ITEM(tuple.get(), i);
    shape[i] = size == Py_None ? -1 : PyLong_AsLongLong(size);
    if (shape[i] == -1 && PyErr_Occurred()) throw ErrorSet{};
  }
  return t;
}

// ("f32", (2, -1)), or ("f32", None) of an unknown rank.
PyObject* FromResult(const ResultShape& s) {
  Ref shape = Ref::Borrow(Py_None);
  if (s.rank >= 0) {
    shape = TupleOf(std::span<const std::int64_t>(s.shape, std::size_t(s.rank)),
                    [](std::int64_t n) { return PyLong_FromLongLong(n); });
  }
  return Py_BuildValue("(OO)", DTypeName(int(s.dtype)).get(), shape.get());
}

PyObject* Infer(PyObject* self, PyObject* inputs) {
  return Guarded([&] {
    const Ref tuple = Checked(PySequence_Tuple(inputs));
    const auto n = std::size_t(PyTuple_GET_SIZE(tuple.get()));
    std::vector<std::int64_t> sizes(n * std::size_t(kMaxRank));
    std::vector<DLTensor> tensors;
    for (std::size_t i = 0; i < n; ++i) {
      tensors.push_back(ToUnknown(PyTuple_GET_ITEM(tuple.get(), Py_ssize_t(i)),
                                  &sizes[i * std::size_t(kMaxRank)]));
    }
    std::vector<ResultShape> shapes(CallOf(self).results().size());
    CallOf(self).Infer(tensors, shapes);
    return TupleOf(std::span<const ResultShape>(shapes), FromResult).release();
  });
}

// ---- Gradients.

std::vector<std::uint8_t> Flags(PyObject* object) {
  const Ref tuple = Checked(PySequence_Tuple(object));
  std::vector<std::uint8_t> flags;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) {
    const int is_set = PyObject_IsTrue(PyTuple_GET_ITEM(tuple.get(), i));
    if (is_set < 0) throw ErrorSet{};
    flags.push_back(std::uint8_t(is_set));
  }
  return flags;
}

// gradient(wanted, given=None): see the stub.
PyObject* GradientCall(PyObject* self, PyObject* args) {
  return Guarded([&] {
    PyObject *wanted, *given = Py_None;
    if (!PyArg_ParseTuple(args, "O|O", &wanted, &given)) throw ErrorSet{};
    const std::vector<std::uint8_t> results =
        given == Py_None ? std::vector<std::uint8_t>() : Flags(given);
    const BoundGradient& made = CallOf(self).Gradient(Flags(wanted), results);
    const Ref sources = TupleOf(std::span(made.sources), [](const anyop_source& s) {
      constexpr const char* kKinds[] = {"result_gradient", "input", "result"};
      return Py_BuildValue("(si)", kKinds[s.kind], s.index);
    });
    return Py_BuildValue("(OOOO)", MakeBoundCallObject(*made.forward).get(),
                         MakeBoundCallObject(*made.gradient).get(), sources.get(),
                         Ints(made.targets).get());
  });
}

// ---- Running.

// The tensors of one run, with shapes of their own: arrays may be reshaped while the lock is away.
class HeldTensors {
 public:
  HeldTensors(const char* what, std::size_t n) : what_(what), tensors_(n), sizes_(n) {}
  std::span<const DLTensor> tensors() const { return tensors_; }

  // A NumPy array, or what gives its memory by __dlpack__.
  void Set(std::size_t i, const std::string& name, Access access, PyObject* object) {
    if (!PyArray_Check(object) && PyObject_HasAttrString(object, "__dlpack__")) {
      // A capsule whose name stays ends the loan itself, when kept_ drops it.
      Ref capsule = Checked(PyObject_CallMethod(object, "__dlpack__", nullptr));
      void* managed = PyCapsule_GetPointer(capsule.get(), "dltensor");
      if (!managed) throw ErrorSet{};
      Copy(i, static_cast<DLManagedTensor*>(managed)->dl_tensor);
      kept_.push_back(std::move(capsule));
      return;
    }
    View view;
    Ref copy;
    const Ref shown = ToPython(name);
    ViewArray(object, access, {what_, shown.get()}, view, copy);
    Copy(i, view.tensor);
    if (copy) kept_.push_back(std::move(copy));
  }
  Ref Allocate(std::size_t i, const ResultShape& shape) {
    View view;
    Ref array = python::Allocate(shape.dtype, shape.rank, shape.shape, view);
    Copy(i, view.tensor);
    return array;
  }

 private:
  struct Sizes {
    std::int64_t shape[kMaxRank], strides[kMaxRank];
  };
  void Copy(std::size_t i, const DLTensor& t) {
    if (t.ndim > kMaxRank) ThrowValueError("bound call: a tensor has more than 8 dimensions.");
    tensors_[i] = t;
    std::copy_n(t.shape, t.ndim, sizes_[i].shape);
    tensors_[i].shape = sizes_[i].shape;
    if (!t.strides) return;
    std::copy_n(t.strides, t.ndim, sizes_[i].strides);
    tensors_[i].strides = sizes_[i].strides;
  }

  const char* what_;
  std::vector<DLTensor> tensors_;
  std::vector<Sizes> sizes_;
  std::vector<Ref> kept_;
};

void CheckLength(PyObject* tuple, std::size_t n, const char* what) {
  if (std::size_t(PyTuple_GET_SIZE(tuple)) == n) return;
  ThrowTypeError("bound call: " + std::to_string(PyTuple_GET_SIZE(tuple)) + " " + what +
                 " are given, but there are " + std::to_string(n) + ".");
}

// run(inputs, results=None): see the stub.
PyObject* RunCall(PyObject* self, PyObject* args) {
  return Guarded([&] {
    PyObject *inputs, *results = Py_None;
    if (!PyArg_ParseTuple(args, "O|O", &inputs, &results)) throw ErrorSet{};
    const BoundCall& call = CallOf(self);
    const Ref given = Checked(PySequence_Tuple(inputs));
    const std::size_t n = call.inputs().size(), n_results = call.results().size();
    CheckLength(given.get(), n, "inputs");
    HeldTensors in("bound call", n), out("bound call", n_results);
    for (std::size_t i = 0; i < n; ++i) {
      const BoundInput& input = call.inputs()[i];
      in.Set(i, input.name, input.is_written ? Access::kWrite : Access::kRead,
             PyTuple_GET_ITEM(given.get(), Py_ssize_t(i)));
    }
    Ref made;
    if (results != Py_None) {
      made = Checked(PySequence_Tuple(results));
      CheckLength(made.get(), n_results, "results");
      for (std::size_t r = 0; r < n_results; ++r) {
        out.Set(r, call.results()[r].name, Access::kWrite,
                PyTuple_GET_ITEM(made.get(), Py_ssize_t(r)));
      }
    } else {
      std::vector<ResultShape> shapes(n_results);
      call.Infer(in.tensors(), shapes);
      made = Checked(PyTuple_New(Py_ssize_t(n_results)));
      for (std::size_t r = 0; r < n_results; ++r) {
        PyTuple_SET_ITEM(made.get(), Py_ssize_t(r), out.Allocate(r, shapes[r]).release());
      }
    }
    Raising([&] {
      const WithoutLock released;
      call.Run(in.tensors(), out.tensors());
    });
    return made.release();
  });
}

// ---- The object.

// Equal calls are one object of the runtime, which is never freed: its address is enough.
PyObject* Compare(PyObject* a, PyObject* b, int op) {
  if (Py_TYPE(b) != g_bound_call_type || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((&CallOf(a) == &CallOf(b)) == (op == Py_EQ));
}
Py_hash_t Hash(PyObject* self) {
  return Py_hash_t(reinterpret_cast<std::uintptr_t>(&CallOf(self)) >> 4);
}
PyObject* Shown(PyObject* self) { return GetText(self, nullptr); }

// By its text, as another process has other addresses.
PyObject* ReduceCall(PyObject* self, PyObject*) {
  return Guarded([&] {
    const Ref module = Checked(PyImport_ImportModule("anyop._anyop"));
    const Ref find = Checked(PyObject_GetAttrString(module.get(), "find_bound_call"));
    return Py_BuildValue("(O(s))", find.get(), CallOf(self).text().c_str());
  });
}

PyGetSetDef g_bound_call_fields[] = {
    {"text", GetText, nullptr, "The canonical text, equal for equal calls.", nullptr},
    {"arguments", GetArguments, nullptr, "A value per parameter; a tensor is its dtype.", nullptr},
    {"contract", ContractOf, nullptr, "The hash of the operator's contract.", nullptr},
    {"scope", ScopeOf, nullptr, "How the text ends; '' where it runs in the default scope.",
     nullptr},
    {"inputs", GetInputs, nullptr, "(name, dtype, is written) of each tensor.", nullptr},
    {"results", ResultsOf, nullptr,
     "(name, dtype or None, numbers of the inputs that it may lie over) of each result.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef g_bound_call_methods[] = {
    {"infer", Infer, METH_O, "The types of the results, of inputs that are partly known."},
    {"gradient", GradientCall, METH_VARARGS, "The bound call of the gradient."},
    {"run", RunCall, METH_VARARGS, "Runs on arrays; returns the results."},
    {"__reduce__", ReduceCall, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot g_bound_call_slots[] = {{Py_tp_getset, g_bound_call_fields},
                                    {Py_tp_methods, g_bound_call_methods},
                                    {Py_tp_richcompare, reinterpret_cast<void*>(&Compare)},
                                    {Py_tp_hash, reinterpret_cast<void*>(&Hash)},
                                    {Py_tp_repr, reinterpret_cast<void*>(&Shown)},
                                    {0, nullptr}};
PyType_Spec g_bound_call_spec = {"anyop._anyop.BoundCall", sizeof(BoundCallObject), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 g_bound_call_slots};

PyMethodDef g_bound_call_functions[] = {
    {"bound_call", AsMethod(&Bind), METH_FASTCALL | METH_KEYWORDS,
     "A call with all but its tensors."},
    {"find_bound_call", FindByText, METH_O, "The bound call of a text."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

Ref BindCall(const OperatorInfo& info, const anyop_value* frame, PyObject* const* given) {
  std::uint32_t wanted = 0;
  for (int r = 0; r < info.n_results; ++r) {
    const bool is_declined = given[r] == Py_False || (!given[r] && IsDeclined(info, r, frame));
    if (!is_declined) wanted |= 1u << r;
  }
  const std::string text = TextOfCall(*info.op, frame, wanted, CurrentScope());
  return MakeBoundCallObject(FindBoundCall(text));
}

Ref MakeBoundCallObject(const BoundCall& call) {
  Ref object = Checked(g_bound_call_type->tp_alloc(g_bound_call_type, 0));
  reinterpret_cast<BoundCallObject*>(object.get())->call = &call;
  return object;
}

void AddBoundCallFunctions(PyObject* module) {
  g_bound_call_type =
      reinterpret_cast<PyTypeObject*>(Checked(PyType_FromSpec(&g_bound_call_spec)).release());
  if (PyModule_AddObjectRef(module, "BoundCall", reinterpret_cast<PyObject*>(g_bound_call_type)) <
          0 ||
      PyModule_AddFunctions(module, g_bound_call_functions) < 0) {
    throw ErrorSet{};
  }
}

}  // namespace anyop::python
