// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "bindings/calls/call.h"
#include "bindings/module_functions.h"
#include "signature/owned_call.h"
#include "signature/symbolic.h"

namespace anyop::python {
namespace {

PyObject* LoadLibrary(PyObject*, PyObject* path) {
  return Guarded([&] {
    Load(ToPath(path, "load: path"));
    return Ref::Borrow(Functions()).release();
  });
}

PyObject* AllFunctions(PyObject*, PyObject*) {
  return Guarded([] { return Ref::Borrow(Functions()).release(); });
}

PyObject* ListLibraries(PyObject*, PyObject*) {
  return Guarded([] {
    Ref list = Checked(PyList_New(0));
    for (const LoadedLibrary& library : Libraries()) {
      const Ref name = ToPython(library.name), version = ToPython(library.version);
      const Ref file = Checked(PyUnicode_DecodeFSDefault(library.file.c_str()));
      const Ref row = Checked(PyTuple_Pack(3, name.get(), version.get(), file.get()));
      if (PyList_Append(list.get(), row.get()) < 0) throw ErrorSet{};
    }
    return list.release();
  });
}

PyObject* OpObjectOf(PyObject*, PyObject* op) {
  return Guarded([&] {
    const OperatorInfo& info = ToOperator(op);
    PyObject* function = PyDict_GetItemString(Functions(), info.op->name.c_str());
    return Ref::Borrow(PyCFunction_GET_SELF(function)).release();
  });
}

PyObject* GetInfoJson(PyObject*, PyObject* op) {
  return Guarded([&] {
    // It names a file, whose path may be no UTF-8: Python keeps such bytes as surrogates.
    const std::string text = InfoJson(*ToOperator(op).op);
    const auto size = Py_ssize_t(text.size());
    return Checked(PyUnicode_DecodeUTF8(text.data(), size, "surrogateescape")).release();
  });
}

PyObject* GetContractJson(PyObject*, PyObject* op) {
  return Guarded([&] { return ToPython(ContractJson(*ToOperator(op).op->contract)).release(); });
}

PyObject* GetInfoText(PyObject*, PyObject* op) {
  return Guarded([&] { return ToPython(InfoText(*ToOperator(op).op)).release(); });
}

Ref ExplanationToPython(const Explanation& e) {
  Ref kernels = Checked(PyList_New(0));
  for (const KernelChoice& k : e.kernels) {
    const Ref row = Checked(Py_BuildValue("(sOsd)", k.kernel.c_str(), k.taken ? Py_True : Py_False,
                                          k.reason.c_str(), k.probe_ns));
    if (PyList_Append(kernels.get(), row.get()) < 0) throw ErrorSet{};
  }
  Ref notes = Checked(PyList_New(0));
  for (const std::string& note : e.notes) {
    if (PyList_Append(notes.get(), ToPython(note).get()) < 0) throw ErrorSet{};
  }
  return Checked(Py_BuildValue("(sssOOKdis)", e.op.c_str(), e.call.c_str(), e.error.c_str(),
                               kernels.get(), notes.get(),
                               static_cast<unsigned long long>(e.workspace_bytes), e.estimated_ns,
                               e.threads, e.text().c_str()));
}

// bind(op, *args, **kwargs): what is given, by name; what cannot be bound is refused as in a call.
PyObject* BindArguments(PyObject*, PyObject* const* args, Py_ssize_t n_args, PyObject* keywords) {
  return Guarded([&] {
    if (n_args < 1) ThrowTypeError("bind: op is missing.");
    const OperatorInfo& info = ToOperator(args[0]);
    Slots slots;
    Sort(info, args + 1, n_args - 1, keywords, slots);
    Ref given = Checked(PyDict_New());
    const auto put = [&](PyObject* name, PyObject* value) {
      if (value && PyDict_SetItem(given.get(), name, value) < 0) throw ErrorSet{};
    };
    for (int i = 0; i < info.n_params; ++i) {
      const Parameter& param = info.params[std::size_t(i)];
      if (!slots[i] && param.is_required) RefuseMissing(info, param);
      put(param.name, slots[i]);
    }
    put(g_host_keywords[kOut], slots.out);
    put(g_host_keywords[kPolicy], slots.policy);
    put(g_host_keywords[kLike], slots.like);
    return given.release();
  });
}

// What the values of a call are for. A call that is only looked at, and not run, may have tensors
// whose memory kernels on the CPU cannot reach.
enum class Purpose { kLook, kRun };

// f(frame, given results) of a call, on any host.
template <class F>
decltype(auto) WithGathered(const OperatorInfo& info, const Slots& slots, Purpose purpose, F&& f) {
  return WithCall(HostOf(info, slots), [&](auto& call) {
    if constexpr (requires { call.Describe(); }) {
      if (purpose == Purpose::kLook) call.Describe();
    }
    View views[kMaxParams + kMaxResults];
    CallMemory memory(&call, views);
    anyop_value frame[kMaxParams + kMaxResults];
    PyObject* given[kMaxResults];
    Gather(call, info, slots, memory, frame, given);
    if (!call.is_direct()) {
      ThrowValueError(info.Message("this call goes through " + call.host().names.module +
                                   "'s dispatcher: " + call.reason() +
                                   ". Try detached CPU tensors."));
    }
    return f(frame, given);
  });
}

// explain(op, *args, **kwargs): the arguments of a call that is not made.
PyObject* ExplainCall(PyObject*, PyObject* const* args, Py_ssize_t n_args, PyObject* keywords) {
  return Guarded([&] {
    if (n_args < 1) ThrowTypeError("explain: op is missing.");
    OperatorInfo& info = ToOperator(args[0]);
    Slots slots;
    Sort(info, args + 1, n_args - 1, keywords, slots);
    Scope scope;
    if (slots.policy) scope.policy(ToText(slots.policy, "policy"));
    return WithGathered(info, slots, Purpose::kLook,
                        [&](const anyop_value* frame, PyObject* const*) {
                          return ExplanationToPython(Explain(*info.op, frame)).release();
                        });
  });
}

// explain_text(op, "x = bf16[2, 4096], eps = 1e-5", "cuda:1"): a call whose tensors have no memory.
PyObject* ExplainText(PyObject*, PyObject* const* args, Py_ssize_t n_args) {
  return Guarded([&] {
    if (n_args != 3) ThrowTypeError("explain_text(op, text, device) takes 3 arguments.");
    const OperatorInfo& info = ToOperator(args[0]);
    const std::string text = ToText(args[1], "text");
    if (text.find('?') != text.npos) ThrowValueError("a size is '?', but must be a number.");
    const Device device(ToText(args[2], "device"));
    const OwnedCall call = ParseCall(*info.op->contract, text, device.dl());
    return ExplanationToPython(Explain(*info.op, call.frame())).release();
  });
}

// time_call(n, op, *args, **kwargs): nanoseconds of a call from C++, the mean of n.
PyObject* TimeCall(PyObject*, PyObject* const* args, Py_ssize_t n_args, PyObject* keywords) {
  return Guarded([&] {
    if (n_args < 2) ThrowTypeError("time_call: n and op are needed.");
    const long n = PyLong_AsLong(args[0]);
    if (n < 1) ThrowValueError("time_call: n must be at least 1.");
    OperatorInfo& info = ToOperator(args[1]);
    Slots slots;
    Sort(info, args + 2, n_args - 2, keywords, slots);
    return WithGathered(info, slots, Purpose::kRun,
                        [&](anyop_value* frame, PyObject* const* given) {
                          for (int r = 0; r < info.n_results; ++r) {
                            if (!given[r]) ThrowTypeError("time_call: out is missing.");
                          }
                          const auto start = std::chrono::steady_clock::now();
                          for (long i = 0; i < n; ++i)
                            Run(*info.op, *GetPlan(*info.op, frame), frame);
                          const std::chrono::duration<double, std::nano> spent =
                              std::chrono::steady_clock::now() - start;
                          return PyFloat_FromDouble(spent.count() / double(n));
                        });
  });
}

PyObject* GetCounters(PyObject*, PyObject*) {
  return Guarded([] {
    Ref list = Checked(PyList_New(0));
    for (const CounterRow& c : Counters()) {
      using Count = unsigned long long;
      const Ref row =
          Checked(Py_BuildValue("(ssKKKs)", c.op.c_str(), c.kernel.c_str(), Count(c.calls),
                                Count(c.fallbacks), Count(c.copies), c.device.c_str()));
      if (PyList_Append(list.get(), row.get()) < 0) throw ErrorSet{};
    }
    return list.release();
  });
}

PyObject* GetPlanCounters(PyObject*, PyObject*) {
  return Guarded([] {
    using Count = unsigned long long;
    const PlanCounters c = PlanCacheCounters();
    return Py_BuildValue("{sKsKsK}", "hits", Count(c.hits), "misses", Count(c.misses), "plans",
                         Count(c.plans));
  });
}

PyObject* ClearCounters(PyObject*, PyObject*) {
  ResetCounters();
  Py_RETURN_NONE;
}

PyObject* GetNearest(PyObject*, PyObject* const* args, Py_ssize_t n_args) {
  return Guarded([&] {
    if (n_args != 2) ThrowTypeError("did_you_mean(word, known) takes 2 arguments.");
    const Ref known = Checked(PySequence_Tuple(args[1]));
    std::vector<std::string> words;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(known.get()); ++i) {
      words.push_back(ToNameShown(PyTuple_GET_ITEM(known.get(), i)));
    }
    return ToPython(DidYouMean(ToNameShown(args[0]), words)).release();
  });
}

PyObject* NumpyDTypeOf(PyObject*, PyObject* name) {
  return Guarded([&] {
    const int dtype = ToDType(name);
    if (dtype < 0) ThrowValueError("dtype is " + Repr(name) + ", but must be one of anyop's.");
    return ToNumpyDType(DType(dtype)).release();
  });
}

PyObject* ListDTypes(PyObject*, PyObject*) {
  return Guarded([&] {
    constexpr const char* kKinds[] = {"float", "int", "uint", "bool", "complex", "pair"};
    Ref list = Checked(PyTuple_New(kDTypes));
    for (int d = 0; d < kDTypes; ++d) {
      const DTypeRow& row = kDTypeRows[d];
      Ref one = Checked(Py_BuildValue("(sss)", std::string(row.name).c_str(), row.long_name,
                                      kKinds[int(row.kind)]));
      PyTuple_SET_ITEM(list.get(), d, one.release());
    }
    return list.release();
  });
}

PyObject* ShowForMessages(PyObject*, PyObject* object) {
  return Guarded([&] { return ToPython(Repr(object)).release(); });
}

PyMethodDef g_operator_methods[] = {
    {"load", LoadLibrary, METH_O, "Loads an operator library; returns functions()."},
    {"functions", AllFunctions, METH_NOARGS, "All operators: full name -> function."},
    {"libraries", ListLibraries, METH_NOARGS, "(name, version, file) of each loaded library."},
    {"op_object", OpObjectOf, METH_O, "The `self` of an operator's function."},
    {"info_json", GetInfoJson, METH_O, "The contract of an operator, as JSON."},
    {"contract_json", GetContractJson, METH_O, "The signature of an operator, as JSON."},
    {"bind", AsMethod(&BindArguments), METH_FASTCALL | METH_KEYWORDS, "The arguments of a call."},
    {"info_text", GetInfoText, METH_O, "The contract of an operator, for people."},
    {"explain", AsMethod(&ExplainCall), METH_FASTCALL | METH_KEYWORDS,
     "The fields of an Explanation."},
    {"explain_text", AsMethod(&ExplainText), METH_FASTCALL, "explain, of a call written as text."},
    {"time_call", AsMethod(&TimeCall), METH_FASTCALL | METH_KEYWORDS, "ns of a call from C++."},
    {"counters", GetCounters, METH_NOARGS, "(op, kernel, calls, fallbacks, copies, device) rows."},
    {"plan_counters", GetPlanCounters, METH_NOARGS, "Hits and misses of the plan caches."},
    {"reset_counters", ClearCounters, METH_NOARGS, "Sets all counters to zero."},
    {"did_you_mean", AsMethod(&GetNearest), METH_FASTCALL, "' Did you mean ...?', or ''."},
    {"show", ShowForMessages, METH_O,
     "What messages say of an object: the beginning of its repr()."},
    {"dtypes", ListDTypes, METH_NOARGS, "(name, name in frameworks, kind) of each dtype."},
    {"numpy_dtype", NumpyDTypeOf, METH_O, "The NumPy dtype of an anyop name."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void AddOperatorFunctions(PyObject* module) {
  if (PyModule_AddFunctions(module, g_operator_methods) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
