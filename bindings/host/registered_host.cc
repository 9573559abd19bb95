// SPDX-License-Identifier: Apache-2.0
#include "registered_host.h"

#include <algorithm>
#include <cstring>

#include "anyop/tensor.h"
#include "anyop/value.h"
#include "bindings/module_functions.h"
#include "call_memory.h"
#include "elsewhere.h"
#include "platform/threads.h"
#include "runtime/memory/copy.h"
#include "slots.h"

namespace anyop::python {
namespace {

static_assert(ANYOP_HOST_MAX_RANK == kMaxRank);

// The text of the exception that is set, which is cleared.
std::string TakeText() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  const Ref owned[] = {Ref(type), Ref(value), Ref(trace)};
  const Ref text(value ? PyObject_Str(value) : nullptr);
  const char* s = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!s) PyErr_Clear();
  return s ? s : "cannot be read.";
}

// What is wrong with a view, "" if nothing is.
std::string Defect(const anyop_host_view& view, bool needs_memory = true,
                   bool has_devices = false) {
  const DLTensor& t = view.tensor;
  if (!IsHost(t.device) && !has_devices) return "lies on another device, but must be on the CPU.";
  if (t.ndim < 0 || t.ndim > kMaxRank) {
    return "has " + std::to_string(t.ndim) + " dimensions, but must have at most " +
           std::to_string(kMaxRank) + ".";
  }
  if (FromDL(t.dtype) < 0) {
    return "has a dtype that anyop lacks. Try a cast to f32 or i64.";
  }
  if (t.ndim && !t.shape) return "has no shape, which is a defect of its host.";
  const bool is_empty = std::any_of(t.shape, t.shape + t.ndim, [](auto n) { return n == 0; });
  if (needs_memory && !t.data && !is_empty) return "has no memory.";
  return "";
}

// A tensor of which only the dtype is known: a bound call has nothing else of it.
void DescribeDType(const ArgumentName& name, PyObject* object, DLTensor& t) {
  static PyObject* const attribute = PyUnicode_InternFromString("dtype");
  const Ref dtype = Checked(PyObject_GetAttr(object, attribute));
  const int known = DTypeOfAnyHost(dtype.get());
  if (known < 0) RefuseDType(object, name);
  FillTensor(&t, nullptr, kHostDevice, ToDL(DType(known)), -1, nullptr);
}

// What a framework's own operator returned, as ours returns it. A named tuple is the framework's
// own, with more than our results: JAX returns what is written.
PyObject* Returned(OperatorInfo& info, Ref made) {
  if (PyTuple_Check(made.get()) && !PyTuple_CheckExact(made.get())) return made.release();
  return NamedResults(info, std::move(made));
}

}  // namespace

RegisteredHost::RegisteredHost(const anyop_python_host& given, PyObject* elsewhere, PyObject* bound)
    : Host({given.module, given.noun, given.from_numpy, given.to_numpy, ""}),
      elsewhere_(Py_NewRef(elsewhere)),
      bound_(Py_NewRef(bound)) {
  // A host that was built with an older header has fewer fields: the others stay null.
  std::memcpy(&record, &given, std::min(given.size, sizeof record));
}

int RegisteredHost::Look(PyObject* object, anyop_host_view& view) const {
  view = {};
  if (!IsTensor(object)) return -1;
  const int code = record.view(object, 0, &view);
  if (code < 0) PyErr_Clear();
  return code;
}

bool RegisteredHost::ViewPlain(PyObject* object, anyop_host_view& view) const {
  return Look(object, view) == 0 && Defect(view).empty();
}

bool RegisteredHost::ViewAnywhere(PyObject* object, anyop_host_view& view) const {
  return Look(object, view) == 0 && Defect(view, true, has_devices()).empty();
}

bool RegisteredHost::NeedsGradient(PyObject* object) const {
  anyop_host_view view;
  return !record.sees_calls && Look(object, view) > 0;
}

std::string RegisteredHost::number_advice(PyObject* object) const {
  if (NeedsGradient(object)) return "A number has no gradient. Try a number of Python";
  return record.number_advice ? record.number_advice : "";
}

const void* RegisteredHost::DataOf(PyObject* object) const {
  anyop_host_view view;
  if (!ViewPlain(object, view)) return nullptr;
  return BaseOf(view.tensor);
}

Ref RegisteredHost::Lend(const DLTensor& t, Access access, void* owner, void (*end)(void*)) const {
  Ref made(record.lend(&t, access == Access::kWrite, owner, end));
  if (made) return made;
  end(owner);
  throw ErrorSet{};
}

Ref RegisteredHost::DTypeObject(DType dtype) const {
  if (!record.dtype_object) return ToPython(Name(dtype));
  return Checked(record.dtype_object(ToDL(dtype)));
}

int RegisteredHost::ToDType(PyObject* object) const {
  DLDataType dtype{};
  return record.to_dtype && record.to_dtype(object, &dtype) ? FromDL(dtype) : -1;
}

HostMemory RegisteredHost::MemoryOf(PyObject* object) const {
  anyop_host_view view;
  if (!ViewAnywhere(object, view)) return {};
  const DLTensor& t = view.tensor;
  std::int64_t last = 0;
  for (int i = 0; i < t.ndim; ++i) {
    if (t.shape[i] == 0) return {Ref::Borrow(object), t.data, 0};
    last += (t.shape[i] - 1) * static_cast<const Tensor&>(t).stride(i);
  }
  return {Ref::Borrow(object), BaseOf(t), Py_ssize_t((last + 1) * Bytes(t.dtype))};
}

bool RegisteredHost::Holds(const HostMemory& memory) const {
  const HostMemory now = MemoryOf(memory.owner.get());
  return now.data == memory.data && now.bytes == memory.bytes;
}

PyObject* RegisteredHost::CallElsewhere(OperatorInfo& info, const Slots& slots) const {
  if (elsewhere_ == Py_None) {
    ThrowValueError(info.Message(
        names.module + " must see this call itself, but its host has no operators of its own."));
  }
  const Ref op = ToPython(info.op->name);
  Ref arguments = Checked(PyTuple_New(info.n_params));
  for (int i = 0; i < info.n_params; ++i) {
    const Parameter& param = info.params[std::size_t(i)];
    if (!slots[i] && param.is_required) RefuseMissing(info, param);
    Ref one = slots[i] ? Ref::Borrow(slots[i]) : DefaultObject(*this, param);
    PyTuple_SET_ITEM(arguments.get(), i, one.release());
  }
  return Returned(info,
                  Checked(PyObject_CallFunctionObjArgs(elsewhere_, op.get(), arguments.get(),
                                                       slots.out ? slots.out : Py_None, nullptr)));
}

PyObject* RegisteredHost::CallBound(OperatorInfo& info, PyObject* call, PyObject* tensors,
                                    PyObject* out) const {
  PyObject* const arguments[] = {call, tensors, out ? out : Py_None};
  return Returned(info, Checked(PyObject_Vectorcall(bound_, arguments, 3, nullptr)));
}

void RegisteredCall::Convert(const ArgumentName& name, Access access, PyObject* object,
                             CallMemory& memory, View& view) {
  if (!host().IsTensor(object)) RefuseObject(host(), object, name);
  if (reason_) {  // the framework makes the call, and looks at the tensor itself
    if (takes_bound_calls_) DescribeDType(name, object, view.tensor);
    return;
  }
  auto& room = *memory.Array<anyop_host_view>(1);
  room = {};
  const int code = record_.view(object, access == Access::kWrite, &room);
  if (code < 0) ThrowValueError(name.start() + " " + TakeText());
  if (code > 0) {
    reason_ = room.reason ? room.reason : "its framework must see it";
    return;
  }
  // A host that sees all calls views what is only described, a traced value for instance, which has
  // no memory.
  const bool needs_memory = !is_described_ || !record_.sees_calls;
  if (const std::string defect = Defect(room, needs_memory, has_devices_); !defect.empty()) {
    ThrowValueError(name.start() + " " + defect);
  }
  view.tensor = room.tensor;
  if (!IsHost(room.tensor.device)) device_ = room.tensor.device;
  if (access == Access::kWrite && record_.written) written_.push_back(object);
}

Ref RegisteredCall::Allocate(DType dtype, int rank, const std::int64_t* shape, CallMemory& memory,
                             View& view) {
  auto& room = *memory.Array<anyop_host_view>(1);
  room = {};
  Ref made =
      Checked(IsHost(device_) ? record_.allocate(ToDL(dtype), rank, shape, &room)
                              : record_.allocate_on(device_, ToDL(dtype), rank, shape, &room));
  const std::string defect = Defect(room, true, has_devices_);
  const bool is_right =
      defect.empty() && room.tensor.ndim == rank && Device(room.tensor.device) == Device(device_) &&
      FromDL(room.tensor.dtype) == int(dtype) && std::equal(shape, shape + rank, room.tensor.shape);
  if (!is_right) {
    Fail(ANYOP_INTERNAL,
         host().names.module + ": a fresh result " +
             (defect.empty() ? "is not of the size, dtype or device that was asked for." : defect));
  }
  view.tensor = room.tensor;
  return made;
}

std::unique_ptr<StreamScope> RegisteredCall::OnStream() const {
  if (IsHost(device_)) return nullptr;
  void* const stream = record_.stream(device_);
  return stream ? std::make_unique<StreamScope>(Stream::Wrap(device_, stream)) : nullptr;
}

namespace {

const anyop_python_host& RecordIn(PyObject* capsule) {
  const auto* record =
      static_cast<const anyop_python_host*>(PyCapsule_GetPointer(capsule, ANYOP_PYTHON_HOST));
  if (!record) throw ErrorSet{};
  const bool has_all = record->size > offsetof(anyop_python_host, allocate) && record->module &&
                       record->noun && record->from_numpy && record->to_numpy &&
                       record->is_tensor && record->view && record->allocate;
  if (!has_all) ThrowValueError("register_host: the record lacks a field that every host has.");
  return *record;
}

// register_host(capsule, elsewhere, bound): see the stub.
PyObject* RegisterHost(PyObject*, PyObject* args) {
  return Guarded([&] {
    PyObject *capsule, *elsewhere, *bound;
    if (!PyArg_ParseTuple(args, "OOO", &capsule, &elsewhere, &bound)) throw ErrorSet{};
    const anyop_python_host& record = RecordIn(capsule);
    if (bound != Py_None &&
        !(record.size > offsetof(anyop_python_host, sees_calls) && record.sees_calls)) {
      ThrowValueError("register_host: bound is given, but the record of " +
                      std::string(record.module) +
                      " has no sees_calls: only a framework that sees every call is given bound "
                      "calls. Leave it out.");
    }
    if (FindHost(InternHostName(record.module))) {
      ThrowValueError(std::string("register_host: ") + record.module + " has a host already.");
    }
    const auto* host = new RegisteredHost(record, elsewhere, bound);  // stays: calls point to it
    if (host->record.threads) SetHostThreads({host->record.threads, nullptr, nullptr});
    AddHost(host);
    return ToPython(host->name).release();
  });
}

// copy_tensor(from, to): whether `from` is a tensor of the same host, dtype and shape; then its
// elements are copied.
PyObject* CopyTensor(PyObject*, PyObject* args) {
  return Guarded([&] {
    PyObject *from, *to;
    if (!PyArg_ParseTuple(args, "OO", &from, &to)) throw ErrorSet{};
    const Host* host = HostOfTensor(to);
    anyop_host_view a, b;
    if (!host || !host->ViewPlain(from, a) || !host->ViewPlain(to, b)) return Py_NewRef(Py_False);
    const DLTensor &source = a.tensor, &target = b.tensor;
    const bool is_alike = FromDL(source.dtype) == FromDL(target.dtype) &&
                          std::equal(source.shape, source.shape + source.ndim, target.shape,
                                     target.shape + target.ndim);
    if (!is_alike) return Py_NewRef(Py_False);
    const auto n = std::size_t(static_cast<const Tensor&>(target).size() * Bytes(target.dtype));
    std::vector<char> packed(n);
    CopyToPacked(source, packed.data());
    CopyFromPacked(packed.data(), target);
    return Py_NewRef(Py_True);
  });
}

PyMethodDef g_registered_host_methods[] = {
    {"copy_tensor", CopyTensor, METH_VARARGS, "Copies a tensor into one of the same host."},
    {"register_host", RegisterHost, METH_VARARGS, "Makes the tensors of a framework known."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void AddRegisteredHostFunctions(PyObject* module) {
  if (PyModule_AddFunctions(module, g_registered_host_methods) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
