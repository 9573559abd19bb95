// SPDX-License-Identifier: Apache-2.0
#include "torch_api.h"

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <vector>

#include "bindings/module_functions.h"
#include "runtime/device/device.h"

namespace anyop::python {

TorchApi g_torch;

namespace {

// The two words are thread-local: dlsym gives the calling thread's, so each thread asks once.
const std::uint64_t* ThreadKeys() {
  static thread_local const std::uint64_t* keys = nullptr;
  if (!keys) [[unlikely]] {
    keys = static_cast<const std::uint64_t*>(
        dlsym(g_torch.c10, "_ZN3c104impl26raw_local_dispatch_key_setE"));
  }
  return keys;
}

template <class F>
bool FindIn(void* library, const char* name, F*& function) {
  function = library ? reinterpret_cast<F*>(dlsym(library, name)) : nullptr;
  return function != nullptr;
}

// The first function that this torch does not have, "" if all are there. A C++ name holds the types
// of the parameters: one whose parameters another torch has changed is missing, not called wrongly.
std::string FindFunctions() {
  // RTLD_NOLOAD: only what `import torch` has loaded, never another torch of the search path.
  const auto open = [](const char* name) { return dlopen(name, RTLD_NOLOAD | RTLD_LAZY); };
  void* const c10 = g_torch.c10 = open("libc10.so");
  void* const cpu = open("libtorch_cpu.so");
  void* const python = open("libtorch_python.so");
  std::string missing;
  const auto find = [&](void* library, const char* name, auto*& function) {
    if (!FindIn(library, name, function) && missing.empty()) missing = name;
  };
  find(cpu, "aoti_torch_get_data_ptr", g_torch.data_ptr);
  FindIn(cpu, "aoti_torch_get_storage_size", g_torch.storage_bytes);
  find(c10, "_ZN3c108GradMode10is_enabledEv", g_torch.is_grad_enabled);
  find(c10, "_ZNK3c1010TensorImpl13requires_gradEv", g_torch.requires_grad);
  find(cpu, "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv", g_torch.function_modes);
  find(cpu, "_ZN5torch8profiler4impl15profilerEnabledEv", g_torch.is_profiling);
  find(cpu, "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE", g_torch.bump_version);
  find(cpu,
       "_ZN2at6detail9empty_cpuEN3c108ArrayRefIlEENS1_10ScalarTypeEbSt8optionalINS1_"
       "12MemoryFormatEE",
       g_torch.empty);
  find(python, "_Z16THPVariable_WrapON2at10TensorBaseE", g_torch.wrap);
  const void* keys = nullptr;
  find(c10, "_ZN3c104impl26raw_local_dispatch_key_setE", keys);
  return missing;
}

void LearnDTypes(PyObject* torch) {
  void* const cpu = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
  for (std::int8_t& number : g_torch.numbers) number = -1;
  for (int d = 0; d < kDTypes; ++d) {
    Ref object(PyObject_GetAttrString(torch, kDTypeRows[d].long_name));
    if (!object) {
      PyErr_Clear();
      continue;
    }
    g_torch.dtype_objects[d] = object.release();
    std::int32_t (*number)() = nullptr;
    const std::string function = std::string("aoti_torch_dtype_") + kDTypeRows[d].long_name;
    if (!FindIn(cpu, function.c_str(), number)) continue;
    const std::int32_t n = number();
    if (n < 0 || n >= 64) continue;
    g_torch.numbers[d] = std::int8_t(n);
    g_torch.dtypes[n] = ToDL(DType(d));
  }
}

// A tensor and what torch says of it: the answer that the right offset gives.
struct Probe {
  const void *impl, *storage, *data;  // data: of the storage
  std::uint64_t keys;
  std::int64_t start;
  std::int32_t number;
  std::vector<std::int64_t> sizes, strides;
  int has_autograd;  // 1 with autograd's fields, 0 without, -1 either
};

std::vector<std::int64_t> ToInts(PyObject* tuple) {
  std::vector<std::int64_t> ints;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    ints.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i)));
  }
  return ints;
}

Probe ToProbe(PyObject* row) {
  PyObject *tensor, *dtype, *sizes, *strides;
  unsigned long long storage, data, keys;
  long long start;
  int has_autograd;
  if (!PyArg_ParseTuple(row, "OKKKLOO!O!i", &tensor, &storage, &data, &keys, &start, &dtype,
                        &PyTuple_Type, &sizes, &PyTuple_Type, &strides, &has_autograd)) {
    throw ErrorSet{};
  }
  const int number = TorchDType(dtype);
  return {TorchImpl(tensor),
          reinterpret_cast<const void*>(storage),
          reinterpret_cast<const void*>(data),
          keys,
          start,
          number < 0 ? -1 : g_torch.numbers[number],
          ToInts(sizes),
          ToInts(strides),
          has_autograd};
}

// Bytes of a TensorImpl that are searched. Behind its own lies the allocator's memory, which now
// and then looks like a field.
constexpr std::size_t kEnd = 176;

// The one offset below `end` that fits all probes; 0 if there is none, or several, as nothing says
// which of them is the field. The first 8 bytes are the pointer to the virtual functions.
template <class F>
std::size_t FindOffset(const std::vector<Probe>& probes, std::size_t end, std::size_t step,
                       F fits) {
  std::size_t found = 0;
  for (std::size_t offset = 8; offset < end; offset += step) {
    if (!std::all_of(probes.begin(), probes.end(), [&](const Probe& p) { return fits(p, offset); }))
      continue;
    if (found) return 0;
    found = offset;
  }
  return found;
}

bool HoldsSizes(const Probe& p, std::size_t offset) {
  const std::size_t rank = p.sizes.size();
  if (TorchField<std::uint64_t>(p.impl, offset) != rank) return false;
  const bool is_inline = rank <= TorchApi::kInline;
  if (!is_inline) return true;  // a pointer follows, if the offset is right: it may be none
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t size = offset + 8 * (i + 1), stride = size + 8 * TorchApi::kInline;
    if (stride + 8 > kEnd || TorchField<std::int64_t>(p.impl, size) != p.sizes[i]) return false;
    if (TorchField<std::int64_t>(p.impl, stride) != p.strides[i]) return false;
  }
  return true;
}

// What was not found, "" if all was.
std::string FindOffsets(const std::vector<Probe>& probes) {
  TorchApi::Offsets& at = g_torch.at;
  const auto pointer = [](const void* object, std::size_t offset) {
    return TorchField<const void*>(object, offset);
  };
  at.keys = FindOffset(probes, kEnd, 8, [](const Probe& p, std::size_t o) {
    return TorchField<std::uint64_t>(p.impl, o) == p.keys;
  });
  if (!at.keys) return "dispatch keys";
  at.autograd = FindOffset(probes, kEnd, 8, [&](const Probe& p, std::size_t o) {
    return p.has_autograd < 0 || (pointer(p.impl, o) != nullptr) == (p.has_autograd > 0);
  });
  if (!at.autograd) return "autograd's fields";
  at.rank = FindOffset(probes, kEnd, 8, HoldsSizes);
  if (!at.rank) return "sizes and strides";
  at.start = FindOffset(probes, kEnd, 8, [](const Probe& p, std::size_t o) {
    return TorchField<std::int64_t>(p.impl, o) == p.start;
  });
  if (!at.start) return "the storage's offset";
  at.dtype = FindOffset(probes, kEnd, 1, [](const Probe& p, std::size_t o) {
    return TorchField<std::uint8_t>(p.impl, o) == p.number;
  });
  if (!at.dtype) return "the dtype";
  at.storage = FindOffset(probes, kEnd, 8, [&](const Probe& p, std::size_t o) {
    return pointer(p.impl, o) == p.storage;
  });
  if (!at.storage) return "the storage";
  at.storage_data = FindOffset(probes, 64, 8, [&](const Probe& p, std::size_t o) {
    return pointer(p.storage, o) == p.data;
  });
  return at.storage_data ? "" : "the storage's data";
}

PyObject* TorchAttribute(PyObject* object, const char* name) {
  return Checked(PyObject_GetAttrString(object, name)).release();
}

// torch_know(torch): from here on, torch's tensors are told apart from arrays.
PyObject* Know(PyObject*, PyObject* torch) {
  return Guarded([&] {
    const Ref c = Checked(PyObject_GetAttrString(torch, "_C"));
    const Ref nn = Checked(PyObject_GetAttrString(torch, "nn"));
    g_torch.base = reinterpret_cast<PyTypeObject*>(TorchAttribute(c.get(), "TensorBase"));
    g_torch.tensor = reinterpret_cast<PyTypeObject*>(TorchAttribute(torch, "Tensor"));
    g_torch.parameter = reinterpret_cast<PyTypeObject*>(TorchAttribute(nn.get(), "Parameter"));
    constexpr const char* kSymbolic[] = {"SymInt", "SymFloat", "SymBool"};
    for (int i = 0; i < 3; ++i) {
      g_torch.symbolic[i] = reinterpret_cast<PyTypeObject*>(TorchAttribute(torch, kSymbolic[i]));
    }
    LearnDTypes(torch);
    g_torch.is_known = true;
    StopExpecting("torch");
    return Py_NewRef(Py_None);
  });
}

// torch_calibrate(forward_ad, probes, plain keys, keys of an inference tensor): "" or what does
// not fit this torch. A probe: (tensor, storage's address, data's address, keys, storage offset,
// dtype, sizes, strides, whether it has fields of autograd's: 1, 0, or -1 for either).
PyObject* Calibrate(PyObject*, PyObject* args) {
  return Guarded([&] {
    PyObject *forward_ad, *rows;
    unsigned long long plain, inference;
    if (!PyArg_ParseTuple(args, "OO!KK", &forward_ad, &PyList_Type, &rows, &plain, &inference)) {
      throw ErrorSet{};
    }
    const std::string missing = FindFunctions();
    if (!missing.empty()) return ToPython("this torch does not export " + missing).release();
    std::vector<Probe> probes;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rows); ++i) {
      probes.push_back(ToProbe(PyList_GET_ITEM(rows, i)));
    }
    const std::string lost = FindOffsets(probes);
    if (!lost.empty()) return ToPython("not found in a tensor: " + lost).release();
    g_torch.other_keys = ~std::uint64_t(plain);
    g_torch.training_keys = plain & ~std::uint64_t(inference);
    g_torch.forward_ad = Checked(PyObject_GetAttrString(forward_ad, "__dict__")).release();
    return ToPython("").release();
  });
}

// torch_set_functions(empty, device_of): addresses of functions of our adapter. What makes fresh
// results, in place of torch's own function, and what says where a tensor lies.
PyObject* SetFunctions(PyObject*, PyObject* args) {
  unsigned long long empty, device_of;
  if (!PyArg_ParseTuple(args, "KK", &empty, &device_of)) return nullptr;
  g_torch.empty = reinterpret_cast<decltype(g_torch.empty)>(empty);
  g_torch.device_of = reinterpret_cast<decltype(g_torch.device_of)>(device_of);
  Py_RETURN_NONE;
}

// torch_thread_keys(): the two words of this thread's dispatch keys.
PyObject* GetThreadKeys(PyObject*, PyObject*) {
  return Guarded([] {
    using Word = unsigned long long;
    return Py_BuildValue("(KK)", Word(ThreadKeys()[0]), Word(ThreadKeys()[1]));
  });
}

// torch_enable(is_fast, included, excluded): the keys of a thread in inference mode.
PyObject* Enable(PyObject*, PyObject* args) {
  int is_fast;
  unsigned long long included, excluded;
  if (!PyArg_ParseTuple(args, "pKK", &is_fast, &included, &excluded)) return nullptr;
  g_torch.inference[0] = included;
  g_torch.inference[1] = excluded;
  g_torch.is_fast = is_fast;
  Py_RETURN_NONE;
}

// torch_reason(tensor): why a call that reads this tensor goes through the dispatcher; "" if not.
PyObject* GetReason(PyObject*, PyObject* tensor) {
  return Guarded([&] {
    TorchCall call;
    View view;
    const Ref name = ToPython("x");
    call.Convert({"torch_reason", name.get()}, Access::kRead, tensor, view);
    return ToPython(Describe(call.route())).release();
  });
}

// torch_view(tensor): (address, dtype, shape, strides or None), as kernels see it.
PyObject* GetView(PyObject*, PyObject* tensor) {
  return Guarded([&] {
    TorchCall call;
    View view;
    const Ref name = ToPython("x");
    call.Convert({"torch_view", name.get()}, Access::kRead, tensor, view);
    if (call.route() != TorchRoute::kFast) ThrowValueError(Describe(call.route()));
    const DLTensor& t = view.tensor;
    const auto list = [&](const std::int64_t* from) {
      Ref tuple = Checked(PyTuple_New(from ? t.ndim : 0));
      for (int i = 0; from && i < t.ndim; ++i) {
        PyTuple_SET_ITEM(tuple.get(), i, PyLong_FromLongLong(from[i]));
      }
      return tuple;
    };
    return Py_BuildValue("(KsNN)", reinterpret_cast<unsigned long long>(t.data),
                         std::string(Name(DType(FromDL(t.dtype)))).c_str(), list(t.shape).release(),
                         t.strides ? list(t.strides).release() : Py_NewRef(Py_None));
  });
}

// torch_empty(dtype, shape): a result as the fast path allocates it.
PyObject* MakeEmpty(PyObject*, PyObject* args) {
  return Guarded([&] {
    const char* name;
    PyObject* shape;
    if (!PyArg_ParseTuple(args, "sO!", &name, &PyTuple_Type, &shape)) throw ErrorSet{};
    std::vector<std::int64_t> sizes;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); ++i) {
      sizes.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i)));
    }
    const int dtype = FindDType(name);
    if (dtype < 0) ThrowValueError("torch_empty: no such dtype.");
    TorchCall call;
    View view;
    return call.Allocate(DType(dtype), int(sizes.size()), sizes.data(), view).release();
  });
}

PyMethodDef g_torch_api_methods[] = {
    {"torch_know", Know, METH_O, "Learns torch's types."},
    {"torch_calibrate", Calibrate, METH_VARARGS, "Measures the fast path's offsets."},
    {"torch_set_functions", SetFunctions, METH_VARARGS, "Sets functions of our adapter."},
    {"torch_thread_keys", GetThreadKeys, METH_NOARGS, "This thread's dispatch keys."},
    {"torch_enable", Enable, METH_VARARGS, "Switches the fast path."},
    {"torch_reason", GetReason, METH_O, "Why a tensor does not take the fast path."},
    {"torch_view", GetView, METH_O, "A tensor as kernels see it."},
    {"torch_empty", MakeEmpty, METH_VARARGS, "A result as the fast path allocates it."},
    {nullptr, nullptr, 0, nullptr}};

std::string ShowForeignTensor(PyObject* tensor) {
  const Ref dtype(PyObject_GetAttrString(tensor, "dtype"));
  const Ref shape(PyObject_GetAttrString(tensor, "shape"));
  const Ref sizes(shape ? PySequence_List(shape.get()) : nullptr);
  const Ref text(dtype && sizes ? PyUnicode_FromFormat("%S%R", dtype.get(), sizes.get()) : nullptr);
  const char* s = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!s) PyErr_Clear();
  return s ? s : "a torch tensor";
}

TorchTensor MakeTensor(TorchSizes sizes, TorchScalarType type) {
  try {
    return g_torch.empty(sizes, type, false, {});
  } catch (const std::exception& e) {  // c10::Error: below the first line is a stack trace
    const std::string text = e.what();
    Fail(ANYOP_OUT_OF_MEMORY, text.substr(0, text.find('\n')));
  }
}

// Where a tensor lies that differs from a plain one of the CPU in the keys of its device alone: for
// kernels, and for autocast. kHostDevice where anyop knows no such device, or the tensor is another
// kind of tensor.
DLDevice DeviceOf(PyObject* object, std::uint64_t keys) {
  if (!g_torch.device_of || std::popcount(keys & g_torch.other_keys) != 2) return kHostDevice;
  const DLDevice device = g_torch.device_of(TorchHandle(object));
  return FindDeviceKind(device.device_type) ? device : kHostDevice;
}

}  // namespace

const char* Describe(TorchRoute route) {
  switch (route) {
    case TorchRoute::kFast:
      return "";
    case TorchRoute::kNotCalibrated:
      return "the fast path is off";
    case TorchRoute::kModes:
      return "a dispatch mode, functorch, tracing or autocast is on";
    case TorchRoute::kFunctionMode:
      return "a torch function mode is on";
    case TorchRoute::kForwardAD:
      return "forward-mode AD is on";
    case TorchRoute::kProfiler:
      return "the profiler is on";
    case TorchRoute::kSubclass:
      return "a tensor subclass";
    case TorchRoute::kKeys:
      return "no plain CPU tensor";
    case TorchRoute::kGrad:
      return "a gradient is needed";
    case TorchRoute::kNoMemory:
      return "the tensor has no memory";
  }
  return "";
}

bool ForwardADIsOn() {
  static PyObject* key = PyUnicode_InternFromString("_current_level");
  static PyObject* off = PyLong_FromLong(-1);  // small ints are single objects
  return PyDict_GetItem(g_torch.forward_ad, key) != off;
}

TorchCall::TorchCall() : HostCall(TorchHost()), route_(ThreadRoute()) {}

// What holds for all calls of this thread now. Torch function modes and the profiler are no
// dispatch keys, so they are asked for by themselves.
TorchRoute TorchCall::ThreadRoute() {
  if (!g_torch.is_fast) return TorchRoute::kNotCalibrated;
  const std::uint64_t* keys = ThreadKeys();
  if (keys[0] | keys[1]) {
    is_inference_ = keys[0] == g_torch.inference[0] && keys[1] == g_torch.inference[1];
    if (!is_inference_) return TorchRoute::kModes;
  }
  if (g_torch.function_modes()) return TorchRoute::kFunctionMode;
  return g_torch.is_profiling() ? TorchRoute::kProfiler : TorchRoute::kFast;
}

void TorchCall::ConvertOther(const ArgumentName& name, PyObject* object, View& view) {
  char* const impl = static_cast<char*>(TorchImpl(object));
  if (!is_described_) return Leave(TorchRoute::kKeys);
  const DLDevice device = DeviceOf(object, TorchField<std::uint64_t>(impl, g_torch.at.keys));
  if (IsHost(device)) return Leave(TorchRoute::kKeys);
  if (g_torch.requires_grad(impl) && g_torch.is_grad_enabled()) return Leave(TorchRoute::kGrad);
  std::int64_t size;
  if (!ViewTorch(impl, view.tensor, size)) RefuseTorchTensor(object, name);
  view.tensor.device = device;
}

Ref TorchCall::Allocate(DType dtype, int rank, const std::int64_t* shape, View& view) {
  const int number = g_torch.numbers[int(dtype)];
  if (number < 0) {
    Fail(ANYOP_NOT_AVAILABLE,
         "the installed torch has no dtype for " + std::string(Name(dtype)) + ".");
  }
  TorchTensor made = MakeTensor({shape, std::size_t(rank)}, TorchScalarType(number));
  Ref object = Checked(g_torch.wrap(static_cast<TorchTensor&&>(made)));
  const char* impl = static_cast<const char*>(TorchImpl(object.get()));
  // Fresh, so that it is dense and begins where its storage does.
  const auto storage = TorchField<const void*>(impl, g_torch.at.storage);
  FillTensor(&view.tensor, TorchField<void*>(storage, g_torch.at.storage_data), kHostDevice,
             ToDL(dtype), rank, shape);
  return object;
}

void TorchCall::Finish() {
  for (int i = 0; i < n_written_; ++i) g_torch.bump_version(written_[i]);
}

void RefuseTorchTensor(PyObject* object, const ArgumentName& name) {
  const Ref rank(PyObject_GetAttrString(object, "ndim"));
  if (rank && PyLong_AsLong(rank.get()) > kMaxRank) {
    ThrowValueError(name.start() + " has " + std::to_string(PyLong_AsLong(rank.get())) +
                    " dimensions, but must have at most " + std::to_string(kMaxRank) + ".");
  }
  PyErr_Clear();
  ThrowValueError(name.start() + " is " + ShowForeignTensor(object) +
                  ", but anyop has no such dtype. Try a cast to f32 or i64.");
}

void RefuseInference(const ArgumentName& name) {
  ThrowValueError(name.start() +
                  " is an inference tensor, but is written outside inference mode. Try a clone().");
}

int TorchDType(PyObject* object) {
  for (int d = 0; d < kDTypes; ++d) {
    if (g_torch.dtype_objects[d] && g_torch.dtype_objects[d] == object) return d;
  }
  return -1;
}

void AddTorchFunctions(PyObject* module) {
  if (PyModule_AddFunctions(module, g_torch_api_methods) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
