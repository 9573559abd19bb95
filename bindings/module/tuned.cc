// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/tuned.h"
#include "bindings/module_functions.h"
#include "bindings/operators/op_object.h"
#include "runtime/plan/probe.h"

namespace anyop::python {
namespace {

Ref ToRow(const TunedChoice& c) {
  return Checked(Py_BuildValue("(ssssssdd)", c.op.c_str(), c.version.c_str(), c.contract.c_str(),
                               c.call.c_str(), c.first.c_str(), c.second.c_str(), c.first_ns,
                               c.second_ns));
}

Ref ToRows(const std::vector<TunedChoice>& choices) {
  Ref list = Checked(PyList_New(0));
  for (const TunedChoice& c : choices) {
    if (PyList_Append(list.get(), ToRow(c).get()) < 0) throw ErrorSet{};
  }
  return list;
}

TunedChoice ToChoice(PyObject* row) {
  const char* texts[6];
  TunedChoice c;
  if (!PyTuple_Check(row)) ThrowTypeError("a choice is " + Repr(row) + ", but must be a tuple.");
  if (!PyArg_ParseTuple(row, "ssssssdd", &texts[0], &texts[1], &texts[2], &texts[3], &texts[4],
                        &texts[5], &c.first_ns, &c.second_ns)) {
    throw ErrorSet{};
  }
  std::string* fields[] = {&c.op, &c.version, &c.contract, &c.call, &c.first, &c.second};
  for (int i = 0; i < 6; ++i) *fields[i] = texts[i];
  return c;
}

Ref PathToPython(const std::string& path) {
  return Checked(PyUnicode_DecodeFSDefault(path.c_str()));
}

PyObject* WantsTuning(PyObject*, PyObject* op) {
  return Guarded([&] { return PyBool_FromLong(HasPairs(*ToOperator(op).op)); });
}

PyObject* Measure(PyObject*, PyObject* op) {
  return Guarded([&] { return ToRows(MeasurePairs(*ToOperator(op).op)).release(); });
}

PyObject* GetPath(PyObject*, PyObject*) {
  return Guarded([] { return PathToPython(TunedPath()).release(); });
}

// (choices, why there is none for this machine).
PyObject* Read(PyObject*, PyObject* path) {
  return Guarded([&] {
    std::vector<TunedChoice> choices;
    const std::string problem = ReadTuned(ToPath(path, "tune: file"), &choices);
    return Py_BuildValue("(Ns)", ToRows(choices).release(), problem.c_str());
  });
}

PyObject* Write(PyObject*, PyObject* const* args, Py_ssize_t n_args) {
  return Guarded([&]() -> PyObject* {
    if (n_args != 2) ThrowTypeError("write_tuned(path, choices) takes 2 arguments.");
    const Ref rows = Checked(PySequence_Tuple(args[1]));
    std::vector<TunedChoice> choices;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rows.get()); ++i) {
      choices.push_back(ToChoice(PyTuple_GET_ITEM(rows.get(), i)));
    }
    WriteTuned(ToPath(args[0], "tune: file"), choices);
    Py_RETURN_NONE;
  });
}

PyObject* Remove(PyObject*, PyObject* path) {
  return Guarded([&] { return PyBool_FromLong(RemoveTuned(ToPath(path, "tune: file"))); });
}

PyObject* GetWhyStale(PyObject*, PyObject* row) {
  return Guarded([&] { return ToPython(WhyStale(ToChoice(row))).release(); });
}

PyMethodDef g_tuned_methods[] = {
    {"wants_tuning", WantsTuning, METH_O, "Whether kernels that can run here want measuring."},
    {"measure_pairs", Measure, METH_O, "Measures all pairs of kernels of an operator."},
    {"tuned_path", GetPath, METH_NOARGS, "The file that this process uses; '' for none."},
    {"read_tuned", Read, METH_O, "The choices in a file, and why there is none."},
    {"write_tuned", AsMethod(&Write), METH_FASTCALL, "Replaces a file by these choices."},
    {"remove_tuned", Remove, METH_O, "Removes a file; whether it was there."},
    {"why_stale", GetWhyStale, METH_O, "Why a choice is not for the loaded operators, or ''."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void AddTunedFunctions(PyObject* module) {
  if (PyModule_AddFunctions(module, g_tuned_methods) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
