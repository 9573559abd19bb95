// SPDX-License-Identifier: Apache-2.0
#include "devices/cuda/driver.h"

#include <dlfcn.h>

#include <string>

namespace anyop::cuda {
namespace {

struct Entry {
  std::size_t at;
  const char* name;
};
#define ENTRY(member, name) \
  { offsetof(Driver, member), name }
constexpr Entry kEntries[] = {
    ENTRY(init, "cuInit"),
    ENTRY(error_name, "cuGetErrorName"),
    ENTRY(error_string, "cuGetErrorString"),
    ENTRY(device_count, "cuDeviceGetCount"),
    ENTRY(device_name, "cuDeviceGetName"),
    ENTRY(device_attribute, "cuDeviceGetAttribute"),
    ENTRY(device_bytes, "cuDeviceTotalMem_v2"),
    ENTRY(retain_context, "cuDevicePrimaryCtxRetain"),
    ENTRY(get_context, "cuCtxGetCurrent"),
    ENTRY(set_context, "cuCtxSetCurrent"),
    ENTRY(push_context, "cuCtxPushCurrent_v2"),
    ENTRY(pop_context, "cuCtxPopCurrent_v2"),
    ENTRY(context_device, "cuCtxGetDevice"),
    ENTRY(synchronize_context, "cuCtxSynchronize"),
    ENTRY(memory_info, "cuMemGetInfo_v2"),
    ENTRY(allocate, "cuMemAlloc_v2"),
    ENTRY(allocate_host, "cuMemHostAlloc"),
    ENTRY(create_pool, "cuMemPoolCreate"),
    ENTRY(set_pool_attribute, "cuMemPoolSetAttribute"),
    ENTRY(trim_pool, "cuMemPoolTrimTo"),
    ENTRY(allocate_from_pool, "cuMemAllocFromPoolAsync"),
    ENTRY(free, "cuMemFreeAsync"),
    ENTRY(copy, "cuMemcpyAsync"),
    ENTRY(fill8, "cuMemsetD8Async"),
    ENTRY(fill16, "cuMemsetD16Async"),
    ENTRY(fill32, "cuMemsetD32Async"),
    ENTRY(create_stream, "cuStreamCreate"),
    ENTRY(destroy_stream, "cuStreamDestroy_v2"),
    ENTRY(synchronize_stream, "cuStreamSynchronize"),
    ENTRY(stream_context, "cuStreamGetCtx"),
    ENTRY(capture_info, "cuStreamGetCaptureInfo"),
    ENTRY(exchange_capture_mode, "cuThreadExchangeStreamCaptureMode"),
    ENTRY(wait_event, "cuStreamWaitEvent"),
    ENTRY(create_event, "cuEventCreate"),
    ENTRY(destroy_event, "cuEventDestroy_v2"),
    ENTRY(record_event, "cuEventRecord"),
    ENTRY(query_event, "cuEventQuery"),
    ENTRY(synchronize_event, "cuEventSynchronize"),
    ENTRY(elapsed, "cuEventElapsedTime"),
    ENTRY(load_module, "cuModuleLoadData"),
    ENTRY(module_function, "cuModuleGetFunction"),
    ENTRY(function_attribute, "cuFuncGetAttribute"),
    ENTRY(launch, "cuLaunchKernel"),
};
#undef ENTRY
static_assert(sizeof(kEntries) / sizeof(Entry) == sizeof(Driver) / sizeof(void (*)()));

struct Opened {
  Driver driver{};
  std::string why;  // it cannot be used; empty where it can
};

Opened Open() {
  Opened opened;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    opened.why = "the NVIDIA driver, libcuda.so.1, is not there.";
    return opened;
  }
  for (const Entry& entry : kEntries) {
    void* symbol = dlsym(library, entry.name);
    if (!symbol) {
      opened.why = std::string("the NVIDIA driver has no ") + entry.name +
                   ", which came with CUDA 11.4. Try a newer driver.";
      return opened;
    }
    *reinterpret_cast<void**>(reinterpret_cast<char*>(&opened.driver) + entry.at) = symbol;
  }
  if (const Result result = opened.driver.init(0)) {
    const char* text = nullptr;
    opened.driver.error_string(result, &text);
    opened.why = result == kNoDevice
                     ? "the NVIDIA driver finds no card."
                     : std::string("the NVIDIA driver cannot start: ") + (text ? text : "?") + ".";
  }
  return opened;
}

}  // namespace

const Driver* FindDriver(const char** why) {
  static const Opened opened = Open();
  if (why) *why = opened.why.c_str();
  return opened.why.empty() ? &opened.driver : nullptr;
}

}  // namespace anyop::cuda
