// SPDX-License-Identifier: Apache-2.0
#include "host.h"

#include <algorithm>

#include "bindings/module_functions.h"

namespace anyop::python {

BuiltInHosts g_hosts;

namespace {

// Neither table is ever destroyed: calls may come while the process ends.
std::vector<const Host*>& HostTable() {
  static auto& hosts = *new std::vector<const Host*>;
  return hosts;
}

std::vector<const CallTaker*>& TakerTable() {
  static auto& takers = *new std::vector<const CallTaker*>;
  return takers;
}

struct Expected {
  std::string module, adapter;
};
std::vector<Expected> g_expected;

// Imports the adapters of frameworks that were imported without anyop noticing.
void StartExpected() {
  if (g_expected.empty()) return;
  PyObject* modules = PyImport_GetModuleDict();  // borrowed
  // A copy, as an adapter that is imported takes itself off the list (StopExpecting).
  for (const Expected& one : std::vector<Expected>(g_expected)) {
    if (!PyDict_GetItemString(modules, one.module.c_str())) continue;
    const Ref adapter = Checked(PyImport_ImportModule(one.adapter.c_str()));
  }
}

// "torch.from_numpy(*)" for the argument `name`.
std::string Advice(const std::string& advice, const std::string& name) {
  const std::size_t at = advice.find('*');
  if (at == advice.npos) return advice;
  return advice.substr(0, at) + name + advice.substr(at + 1);
}

// By way of NumPy, the one framework that every host names a conversion from and to.
std::string Convert(const Host& to, const Host& from, const std::string& name) {
  if (&from == &NumpyHost()) return Advice(to.names.from_numpy, name);
  const std::string array = Advice(from.names.to_numpy, name);
  return &to == &NumpyHost() || array.empty() ? array : Advice(to.names.from_numpy, array);
}

}  // namespace

Ref Host::ReadOnly(PyObject* own, const DLTensor&) const { return Ref::Borrow(own); }

PyObject* Host::CallElsewhere(OperatorInfo&, const Slots&) const {
  Fail(ANYOP_INTERNAL, names.module + " has no operators of its own.");
}

PyObject* Host::CallBound(OperatorInfo&, PyObject*, PyObject*, PyObject*) const {
  Fail(ANYOP_INTERNAL, names.module + " takes no bound calls.");
}

std::string ArgumentName::text() const {
  const char* s = PyUnicode_AsUTF8(name);
  std::string shown = s ? s : "?";
  if (element >= 0) shown += "[" + std::to_string(element) + "]";
  return shown;
}

std::string ArgumentName::start() const { return std::string(op) + ": " + text(); }

void AddHost(const Host* host) {
  StopExpecting(host->names.module);
  HostTable().push_back(host);
}

void AddTaker(const CallTaker* taker) { TakerTable().push_back(taker); }

// Takers come before hosts: a traced value of a graph has torch's protocol too, but only to refuse
// it, and torch would be given the call.
const CallTaker* FindTaker(std::span<PyObject* const> arguments) {
  for (const CallTaker* taker : TakerTable()) {
    if (taker->TakesRefused(arguments)) return taker;
  }
  for (const Host* host : HostTable()) {
    if (host->TakesRefused(arguments)) return host;
  }
  return nullptr;
}

std::span<const Host* const> Hosts() { return HostTable(); }

const Host* FindHost(HostName name) {
  const auto found = std::find_if(HostTable().begin(), HostTable().end(),
                                  [&](const Host* h) { return h->name == name; });
  return found == HostTable().end() ? nullptr : *found;
}

void ExpectHost(const std::string& module, const std::string& adapter) {
  g_expected.push_back({module, adapter});
}

void StopExpecting(const std::string& module) {
  std::erase_if(g_expected, [&](const Expected& e) { return e.module == module; });
}

const Host* HostOfTensor(PyObject* object) {
  for (const Host* host : HostTable()) {
    if (host->IsTensor(object)) return host;
  }
  return nullptr;
}

const Host& HostOfObject(PyObject* object) {
  if (object && (PyTuple_Check(object) || PyList_Check(object))) {
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(object);
    object = n ? PySequence_Fast_GET_ITEM(object, 0) : nullptr;
  }
  if (!object || object == Py_None || PyArray_Check(object)) return NumpyHost();
  StartExpected();
  for (const Host* host : HostTable()) {
    if (host->IsTensor(object) || IsModule(object, host->names.module)) return *host;
  }
  return NumpyHost();
}

int DTypeOfAnyHost(PyObject* object) {
  for (const Host* host : HostTable()) {
    if (const int dtype = host->ToDType(object); dtype >= 0) return dtype;
  }
  return -1;
}

bool IsSymbolicNumber(PyObject* object) {
  return std::any_of(HostTable().begin(), HostTable().end(),
                     [&](const Host* host) { return host->IsSymbolicNumber(object); });
}

bool IsModule(PyObject* object, std::string_view name) {
  if (!PyModule_Check(object)) return false;
  const char* own = PyModule_GetName(object);
  if (!own) ClearOrPass();  // somebody deleted its __name__
  return own && own == name;
}

void RefuseInWordsOfTaker(PyObject* object) {
  for (const CallTaker* taker : TakerTable()) {
    const std::string text = taker->refusal(object);
    if (!text.empty()) ThrowTypeError(text);
  }
}

void RefuseDType(PyObject* tensor, const ArgumentName& name) {
  const Ref dtype(PyObject_GetAttrString(tensor, "dtype"));
  const Ref shape(PyObject_GetAttrString(tensor, "shape"));
  const Ref sizes(shape ? PySequence_List(shape.get()) : nullptr);
  const Ref text(dtype && sizes ? PyUnicode_FromFormat("%S%R", dtype.get(), sizes.get()) : nullptr);
  const char* shown = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!shown) PyErr_Clear();
  ThrowValueError(
      Filled(texts::kNoDType,
             {{"op", name.op}, {"name", name.text()}, {"type", shown ? shown : "a tensor"}}));
}

Ref DictOf(std::span<const Text> texts) {
  Ref dict = Checked(PyDict_New());
  for (const Text& text : texts) {
    if (PyDict_SetItem(dict.get(), ToPython(text.name).get(), ToPython(text.text).get()) < 0) {
      throw ErrorSet{};
    }
  }
  return dict;
}

void RefuseObject(const Host& host, PyObject* object, const ArgumentName& name) {
  RefuseInWordsOfTaker(object);
  const std::string& noun = host.names.noun;
  if (const Host* other = HostOfTensor(object)) {
    const std::string advice = Convert(host, *other, name.text());
    ThrowTypeError(name.start() + " is a " + other->names.noun + ", but the call has " + noun +
                   "s, and all must come from one host." +
                   (advice.empty() ? "" : " Try " + advice + "."));
  }
  const bool is_none = object == Py_None;
  const std::string make = is_none ? "" : Advice(host.names.make, name.text());
  ThrowTypeError(name.start() + " is " + (is_none ? "None" : Repr(object)) + ", but must be a " +
                 noun + "." + (make.empty() ? "" : " Try " + make + "."));
}

namespace {

// hosts(): their names; torch's is among them before torch is there.
PyObject* ListHosts(PyObject*, PyObject*) {
  return Guarded([] {
    Ref list = Checked(PyList_New(0));
    for (const Host* host : Hosts()) {
      if (PyList_Append(list.get(), ToPython(host->name).get()) < 0) throw ErrorSet{};
    }
    return list.release();
  });
}

// texts(): see the stub.
PyObject* GetTexts(PyObject*, PyObject*) {
  return Guarded([] { return DictOf(texts::kAll).release(); });
}

PyMethodDef g_host_methods[] = {
    {"hosts", ListHosts, METH_NOARGS, "The names of the hosts."},
    {"texts", GetTexts, METH_NOARGS, "What hosts say of calls that they refuse."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void AddHostFunctions(PyObject* module) {
  g_hosts = {MakeNumpyHost(), MakeTorchHost()};
  AddHost(g_hosts.numpy);
  AddHost(g_hosts.torch);  // whose objects are known once its adapter has started
  if (PyModule_AddFunctions(module, g_host_methods) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
