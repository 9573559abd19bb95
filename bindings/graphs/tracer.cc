// SPDX-License-Identifier: Apache-2.0
// A graph under construction as an object: inputs, views, outputs. Calls are in record.cc.
#include <memory>

#include "compiled_graph.h"
#include "graph/ir/text.h"
#include "traced.h"

namespace anyop::python {
namespace {

// Runs f(trace) with the user's line as the place of what it adds.
template <class F>
PyObject* Adding(PyObject* self, F&& f) {
  return Guarded([&] {
    Trace& trace = TraceOf(self);
    trace.builder.SetPlace(PlaceIn(trace));
    return f(trace);
  });
}

const Graph& GraphOf(const Trace& trace) { return trace.builder.graph(); }

// A number, or the text of a size.
Ref SizeObject(const Trace& trace, const Size& size) {
  if (size.is_constant()) return Checked(PyLong_FromLongLong(size.constant()));
  return ToPython(ShowSize(GraphOf(trace), size));
}

// Tracer(name). Made by __new__, so that there is no Tracer without a trace: nobody asks for null.
PyObject* NewTracer(PyTypeObject* type, PyObject* args, PyObject*) {
  return Guarded([&] {
    PyObject* name;
    if (!PyArg_ParseTuple(args, "O", &name)) throw ErrorSet{};
    auto trace = std::make_unique<Trace>();
    trace->name = ToText(name, "the name of the graph");
    PyObject* self = Checked(type->tp_alloc(type, 0)).release();
    reinterpret_cast<TracerObject*>(self)->trace = trace.release();
    return self;
  });
}

void FreeTracer(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<TracerObject*>(self)->trace;
  type->tp_free(self);
  Py_DECREF(type);
}

// input(name, type): "bf16[n, 576]", "int", "float" or "bool". Returns the value's number.
PyObject* Input(PyObject* self, PyObject* args) {
  return Guarded([&] {
    Trace& trace = TraceOf(self);
    PyObject *name_object, *type;
    if (!PyArg_ParseTuple(args, "OO", &name_object, &type)) throw ErrorSet{};
    const std::string name = ToText(name_object, (trace.name + ": the name of an input").c_str());
    const std::string text = ToText(type, (trace.name + ": the type of " + name).c_str());
    const ParamKind kind = text == "int"     ? ParamKind::kInt
                           : text == "float" ? ParamKind::kFloat
                                             : ParamKind::kBool;
    const bool is_number = text == "int" || text == "float" || text == "bool";
    return PyLong_FromLong(is_number ? trace.builder.Scalar(name, kind)
                                     : trace.builder.Input(name, text));
  });
}

// state(name, array, is_frozen)
PyObject* State(PyObject* self, PyObject* args) {
  return Guarded([&] {
    Trace& trace = TraceOf(self);
    PyObject *name, *array;
    int is_frozen;
    if (!PyArg_ParseTuple(args, "UOp", &name, &array, &is_frozen)) throw ErrorSet{};
    return PyLong_FromLong(
        BindState(trace, trace.name.c_str(), name, array, false, is_frozen != 0));
  });
}

PyObject* Slice(PyObject* self, PyObject* args) {
  return Adding(self, [&](Trace& trace) {
    int value, dimension;
    PyObject *begin, *end;
    if (!PyArg_ParseTuple(args, "iiOO", &value, &dimension, &begin, &end)) throw ErrorSet{};
    return PyLong_FromLong(
        trace.builder.Slice(value, dimension, ToSize(trace, begin), ToSize(trace, end)));
  });
}

PyObject* Reshape(PyObject* self, PyObject* args) {
  return Adding(self, [&](Trace& trace) {
    int value;
    PyObject* shape;
    if (!PyArg_ParseTuple(args, "iO!", &value, &PyTuple_Type, &shape)) throw ErrorSet{};
    std::vector<Size> sizes;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); ++i) {
      sizes.push_back(ToSize(trace, PyTuple_GET_ITEM(shape, i)));
    }
    return PyLong_FromLong(trace.builder.Reshape(value, std::move(sizes)));
  });
}

PyObject* Transpose(PyObject* self, PyObject* args) {
  return Adding(self, [&](Trace& trace) {
    int value, a, b;
    if (!PyArg_ParseTuple(args, "iii", &value, &a, &b)) throw ErrorSet{};
    return PyLong_FromLong(trace.builder.Transpose(value, a, b));
  });
}

// output(traced value or array, name)
PyObject* Output(PyObject* self, PyObject* args) {
  return Adding(self, [&](Trace& trace) {
    PyObject *object, *name;
    if (!PyArg_ParseTuple(args, "OU", &object, &name)) throw ErrorSet{};
    const auto* traced = reinterpret_cast<TracedObject*>(object);
    if (IsTraced(object) && (traced->tracer != self || traced->id < 0)) {
      ThrowTypeError(trace.name + ": the function returns " + Repr(object) +
                     ", but must return tensors of its graph.");
    }
    trace.builder.Output(
        IsTraced(object) ? traced->id : BindState(trace, trace.name.c_str(), name, object, false),
        ToText(name, "a name"));
    return Py_NewRef(Py_None);
  });
}

// (name, type, dtype, shape) of a value: ("x", "f32[n, 64]", "f32", ("n", 64)). Unlike TraceOf it
// allows a graph that is compiled, because repr() shows a value at any time.
PyObject* DescribeValue(PyObject* self, PyObject* number) {
  return Guarded([&] {
    Trace& trace = *reinterpret_cast<TracerObject*>(self)->trace;
    const long id = PyLong_AsLong(number);
    if (id < 0 || id >= long(GraphOf(trace).values.size())) {
      ThrowTypeError(trace.name + ": the graph has no value " + Repr(number) + ".");
    }
    const GraphValue& v = GraphOf(trace).value(int(id));
    Ref shape = Checked(PyTuple_New(Py_ssize_t(v.shape.size())));
    for (std::size_t i = 0; i < v.shape.size(); ++i) {
      PyTuple_SET_ITEM(shape.get(), Py_ssize_t(i), SizeObject(trace, v.shape[i]).release());
    }
    const std::string dtype(Name(v.dtype));
    return Py_BuildValue("(sssO)", v.name.c_str(), ShowType(GraphOf(trace), int(id)).c_str(),
                         dtype.c_str(), shape.get());
  });
}

// size("(n) + (1)"): "n + 1", or an int.
PyObject* MakeSize(PyObject* self, PyObject* text) {
  return Guarded([&] {
    Trace& trace = TraceOf(self);
    return SizeObject(trace, trace.builder.ParseSize(ToText(text, "a size"))).release();
  });
}

// terms("2*n + 1"): [(1, []), (2, ["n"])]
PyObject* Terms(PyObject* self, PyObject* object) {
  return Guarded([&] {
    Trace& trace = TraceOf(self);
    const Size size = ToSize(trace, object);
    const std::vector<std::string> names = trace.builder.symbol_names();
    Ref list = Checked(PyList_New(0));
    for (const SizeTerm& term : size.terms()) {
      Ref symbols = Checked(PyList_New(0));
      for (const int s : term.symbols) {
        const Ref name = ToPython(names[std::size_t(s)]);
        if (PyList_Append(symbols.get(), name.get()) < 0) throw ErrorSet{};
      }
      const Ref row = Checked(Py_BuildValue("(LO)", (long long)(term.factor), symbols.get()));
      if (PyList_Append(list.get(), row.get()) < 0) throw ErrorSet{};
    }
    return list.release();
  });
}

PyObject* Place(PyObject* self, PyObject*) {
  return Guarded(
      [&] { return ToPython(PlaceIn(*reinterpret_cast<TracerObject*>(self)->trace)).release(); });
}

// at("model.py:31"): the place of what is added from now on; "" takes the line that adds it.
PyObject* At(PyObject* self, PyObject* place) {
  return Guarded([&] {
    TraceOf(self).place = ToText(place, "a place");
    return Py_NewRef(Py_None);
  });
}

// keep(object): alive for as long as the graph.
PyObject* KeepBound(PyObject* self, PyObject* object) {
  return Guarded([&] {
    TraceOf(self).held.Keep(object);
    return Py_NewRef(Py_None);
  });
}

std::string NameOfType(PyObject* object) {
  return PyType_Check(object) ? reinterpret_cast<PyTypeObject*>(object)->tp_name : Repr(object);
}

// compile(type of what is returned, or None for the only tensor or nothing): the graph.
PyObject* Compile(PyObject* self, PyObject* returns) {
  return Guarded([&] {
    Trace& trace = TraceOf(self);
    trace.held.Check(trace.name);  // compiling reads it
    PyTypeObject* tuple = returns == Py_None ? nullptr : reinterpret_cast<PyTypeObject*>(returns);
    if (tuple && !CanHoldOutputs(returns)) {
      ThrowTypeError(trace.name + ": the function returns a " + NameOfType(returns) +
                     ", but must return a tensor, or a tuple, list or named tuple of tensors.");
    }
    trace.is_done = true;
    return MakeCompiledGraph(trace.name, trace.builder.Finish(), tuple, trace.state_host, {},
                             std::move(trace.held));
  });
}

PyMethodDef g_tracer_methods[] = {{"input", Input, METH_VARARGS, nullptr},
                                  {"state", State, METH_VARARGS, nullptr},
                                  {"slice", Slice, METH_VARARGS, nullptr},
                                  {"reshape", Reshape, METH_VARARGS, nullptr},
                                  {"transpose", Transpose, METH_VARARGS, nullptr},
                                  {"output", Output, METH_VARARGS, nullptr},
                                  {"describe", DescribeValue, METH_O, nullptr},
                                  {"size", MakeSize, METH_O, nullptr},
                                  {"terms", Terms, METH_O, nullptr},
                                  {"place", Place, METH_NOARGS, nullptr},
                                  {"at", At, METH_O, nullptr},
                                  {"keep", KeepBound, METH_O, nullptr},
                                  {"compile", Compile, METH_O, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyTypeObject* MakeTracerType(PyObject* module) {
  static PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("A graph under construction.")},
                                {Py_tp_new, reinterpret_cast<void*>(&NewTracer)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(&FreeTracer)},
                                {Py_tp_methods, g_tracer_methods},
                                {0, nullptr}};
  static PyType_Spec spec = {"anyop._anyop.Tracer", sizeof(TracerObject), 0, Py_TPFLAGS_DEFAULT,
                             slots};
  Ref type = Checked(PyType_FromSpec(&spec));
  if (PyModule_AddObjectRef(module, "Tracer", type.get()) < 0) throw ErrorSet{};
  return reinterpret_cast<PyTypeObject*>(type.release());
}

}  // namespace anyop::python
