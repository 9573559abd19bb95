// SPDX-License-Identifier: Apache-2.0
#include "torch_view.h"

#include <bit>

#include "bindings/torch/texts.h"
#include "runtime/device/device.h"

namespace anyop::python {
namespace {

// Where a tensor lies that differs from a plain one of the CPU in the keys of its device alone: for
// kernels, and for autocast. kHostDevice where anyop knows no such device, or the tensor is another
// kind of tensor.
DLDevice DeviceOf(PyObject* object, std::uint64_t keys) {
  if (!g_torch_functions.device_of || std::popcount(keys & g_torch_fast.other_keys) != 2)
    return kHostDevice;
  const DLDevice device = g_torch_functions.device_of(TorchHandle(object));
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
  return PyDict_GetItem(g_torch_fast.forward_ad, key) != off;
}

TorchCall::TorchCall() : HostCall(TorchHost()), route_(ThreadRoute()) {}

// What holds for all calls of this thread now. Torch function modes and the profiler are no
// dispatch keys, so they are asked for by themselves.
TorchRoute TorchCall::ThreadRoute() {
  if (!g_torch_fast.is_on) return TorchRoute::kNotCalibrated;
  const std::uint64_t* keys = ThreadKeys();
  if (keys[0] | keys[1]) {
    is_inference_ = keys[0] == g_torch_fast.inference[0] && keys[1] == g_torch_fast.inference[1];
    if (!is_inference_) return TorchRoute::kModes;
  }
  if (g_torch_functions.function_modes()) return TorchRoute::kFunctionMode;
  return g_torch_functions.is_profiling() ? TorchRoute::kProfiler : TorchRoute::kFast;
}

void TorchCall::ConvertOther(const ArgumentName& name, PyObject* object, View& view) {
  char* const impl = static_cast<char*>(TorchImpl(object));
  if (!is_described_) return Leave(TorchRoute::kKeys);
  const DLDevice device = DeviceOf(object, g_torch_layout.Keys(impl));
  if (IsHost(device)) return Leave(TorchRoute::kKeys);
  if (NeedsGrad(impl)) return Leave(TorchRoute::kGrad);
  std::int64_t size;
  if (!g_torch_layout.View(impl, view.tensor, size)) RefuseTorchTensor(object, name);
  view.tensor.device = device;
}

void TorchCall::Finish() {
  for (int i = 0; i < n_written_; ++i) g_torch_functions.bump_version(written_[i]);
}

void RefuseTorchTensor(PyObject* object, const ArgumentName& name) {
  const Ref rank(PyObject_GetAttrString(object, "ndim"));
  if (rank && PyLong_AsLong(rank.get()) > kMaxRank) {
    ThrowValueError(
        Filled(texts::kManyDimensions, {{"op", name.op},
                                        {"name", name.text()},
                                        {"rank", std::to_string(PyLong_AsLong(rank.get()))}}));
  }
  PyErr_Clear();
  RefuseDType(object, name);
}

void RefuseInference(const ArgumentName& name) {
  ThrowValueError(Filled(torch_texts::kInference, {{"op", name.op}, {"name", name.text()}}));
}

}  // namespace anyop::python
