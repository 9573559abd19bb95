// SPDX-License-Identifier: Apache-2.0
// What is known of a graph at given sizes, and graphs as text.
#include <algorithm>

#include "bindings/numpy/numpy_view.h"
#include "compiled_graph.h"
#include "graph/builder/parse_graph.h"
#include "graph/ir/alias.h"
#include "graph/ir/text.h"
#include "graph/specialise/specialisation.h"
#include "signature/fitted.h"

namespace anyop::python {
namespace {

// The number of every free symbol, from keywords.
std::vector<std::int64_t> Symbols(const CompiledGraph& self, PyObject* keywords) {
  const Graph& graph = self.executable->graph();
  std::string names;
  for (const GraphSymbol& s : graph.symbols) {
    if (s.value == GraphSymbol::kFree) names += (names.empty() ? "" : ", ") + s.name;
  }
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (keywords && PyDict_Next(keywords, &at, &key, &value)) {
    const std::string name = ToText(key, "a symbol");
    const auto is_it = [&](const GraphSymbol& s) {
      return s.value == GraphSymbol::kFree && s.name == name;
    };
    if (std::any_of(graph.symbols.begin(), graph.symbols.end(), is_it)) continue;
    ThrowTypeError(self.info.Message(
        "unknown size '" + name + "'. " +
        (names.empty() ? "The graph has none." : "The graph has " + names + ".")));
  }
  std::vector<std::int64_t> symbols;
  for (const GraphSymbol& s : graph.symbols) {
    PyObject* size = keywords ? PyDict_GetItemString(keywords, s.name.c_str()) : nullptr;
    if (s.value == GraphSymbol::kFree && !size) {
      ThrowTypeError(self.info.Message(s.name + " is missing. Try " + s.name + "=1."));
    }
    symbols.push_back(size ? ToSizeNumber(size, self.info.Message(s.name)) : 0);
  }
  return symbols;
}

// Inputs of these sizes, without memory, on the device where the graph's state lies.
struct PretendedInputs {
  std::vector<std::vector<std::int64_t>> shapes;
  std::vector<DLTensor> tensors;
  std::vector<anyop_value> values;

  PretendedInputs(const Executable& executable, const std::vector<std::int64_t>& symbols) {
    const Graph& graph = executable.graph();
    const std::size_t n = graph.inputs.size();
    shapes.resize(n), tensors.resize(n), values.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      const GraphValue& v = graph.value(graph.inputs[i]);
      if (v.kind == GraphValue::kScalar) {
        const std::int64_t number = v.symbol >= 0 ? symbols[std::size_t(v.symbol)] : 0;
        values[i] = Fitted(v.scalar, WholeValue(TagOf(v.scalar), number));
        continue;
      }
      for (const Size& size : v.shape) shapes[i].push_back(size.At(symbols));
      DLTensor& t = tensors[i];
      FillTensor(&t, nullptr, executable.DeviceOfInput(int(i)), ToDL(v.dtype),
                 int(shapes[i].size()), shapes[i].data());
      values[i] = TensorValue(&t);
    }
  }
};

// Arrays for the states and constants of a text.
struct GivenData {
  const std::string& name;
  PyObject* arrays;  // a dict, or null
  std::vector<std::string> read_only;
  const Host* host = nullptr;
  HeldState held;

  Array operator()(const std::string& key) {
    PyObject* object = arrays ? PyDict_GetItemString(arrays, key.c_str()) : nullptr;
    if (!object) return Array();
    const Ref shown = ToPython(key);
    if (PyArray_Check(object) && !PyArray_ISWRITEABLE(reinterpret_cast<PyArrayObject*>(object))) {
      read_only.push_back(key);
    }
    Array array = HeldArray(name.c_str(), shown.get(), object, false, &host);
    held.Add(key, object);
    return array;
  }
};

}  // namespace

std::shared_ptr<Specialisation> PrepareAt(CompiledGraph& graph, PyObject* sizes) {
  const PretendedInputs inputs(*graph.executable, Symbols(graph, sizes));
  return graph.executable->Prepare(inputs.values);
}

PyObject* ParseText(PyObject*, PyObject* args, PyObject* keywords) {
  return Guarded([&] {
    const char* const names[] = {"text", "state", "name", nullptr};
    PyObject *text, *arrays = nullptr, *given_name = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O!O", const_cast<char**>(names), &text,
                                     &PyDict_Type, &arrays, &given_name)) {
      throw ErrorSet{};
    }
    const std::string name = given_name ? ToText(given_name, "Graph.parse: the name") : "graph";
    GivenData data{name, arrays, {}, nullptr, {}};
    Graph graph = ParseGraph(ToText(text, "Graph.parse: the text"), std::ref(data));
    const std::vector<bool> written = WrittenRoots(graph);
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
      const std::string& value = graph.values[i].name;
      const bool is_fixed = std::count(data.read_only.begin(), data.read_only.end(), value) > 0;
      if (!written[i] || !is_fixed) continue;
      ThrowValueError(name + ": " + value + " is read-only, but is written. Try a copy.");
    }
    PyTypeObject* tuple = graph.outputs.size() > 1 ? &PyTuple_Type : nullptr;
    return MakeCompiledGraph(name, std::move(graph), tuple, data.host, {}, std::move(data.held));
  });
}

PyObject* StateArrays(PyObject* self, void*) {
  return Guarded([&] {
    ToGraph(self).held.Check(ToGraph(self).info.name);
    Ref arrays = Checked(PyDict_New());
    for (const GraphValue& v : ToGraph(self).executable->graph().values) {
      if (v.array.is_none()) continue;
      const Access access =
          v.kind == GraphValue::kState && !v.is_frozen ? Access::kWrite : Access::kRead;
      // State on a device is given as the object that was bound: NumPy has no arrays there.
      PyObject* const bound =
          v.array.device().is_host() ? nullptr : ToGraph(self).held.ObjectOf(v.array);
      const Ref array =
          bound ? Ref::Borrow(bound) : ViewAsArray(v.array.tensor(), access, Ref::Borrow(self));
      if (PyDict_SetItemString(arrays.get(), v.name.c_str(), array.get()) < 0) throw ErrorSet{};
    }
    return arrays.release();
  });
}

PyObject* Buffers(PyObject* self, PyObject* args, PyObject* keywords) {
  return Guarded([&] {
    if (PyTuple_GET_SIZE(args)) ThrowTypeError("buffers takes sizes by name: buffers(n=16).");
    const std::shared_ptr<Specialisation> s = PrepareAt(ToGraph(self), keywords);
    Ref list = Checked(PyList_New(0));
    for (std::size_t i = 0; i < s->buffers.size(); ++i) {
      const Lifetime& l = s->buffers[i];
      const Ref row = Checked(Py_BuildValue("(LLii)", (long long)(s->memory.offsets[i]),
                                            (long long)(l.bytes), l.first, l.last));
      if (PyList_Append(list.get(), row.get()) < 0) throw ErrorSet{};
    }
    return list.release();
  });
}

}  // namespace anyop::python
