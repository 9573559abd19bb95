// SPDX-License-Identifier: Apache-2.0
// Chips as devices of anyop, for kernels that the vendor's compiler made (anyop/ascend_chip.h).
// Never run on a chip: written from the public documentation of the runtime's functions, and tried
// with a stub of them (python/tests/ascend/test_ascend_compiler.py).
#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "anyop/device.h"
#include "devices/aicore/runtime.h"

namespace aicore {
namespace {

thread_local std::string last_failure;

const char* LastFailure() { return last_failure.c_str(); }

template <class F>
int Guard(F&& f) {
  try {
    f(TheRuntime());
    return ANYOP_OK;
  } catch (const Failure& failure) {
    last_failure = failure.text;
    return failure.code;
  } catch (const std::exception& e) {
    last_failure = e.what();
    return ANYOP_INTERNAL;
  }
}

void Must(Code code, const char* function) {
  if (code == kOk) return;
  const char* more = TheRuntime().aclGetRecentErrMsg();
  std::string text = std::string(function) + " gives " + std::to_string(code);
  if (more && *more) text += ": " + std::string(more);
  while (text.back() == '\n' || text.back() == '.') text.pop_back();
  throw Failure{ANYOP_INTERNAL, text + "."};
}

struct EventState {
  Event handle;
  std::int32_t device;
  bool is_recorded = false;
};
EventState& EventOf(anyop_event event) { return *static_cast<EventState*>(event); }

// Which device a stream is of: the runtime has one of its own for each, and others are made here.
struct Streams {
  std::mutex mutex;
  std::unordered_map<Stream, std::int32_t> device;
  std::vector<Stream> of_device;  // the default one
};
Streams& TheStreams() {
  static auto* streams = new Streams;
  return *streams;
}

void Use(const Runtime& r, std::int32_t device) {
  Must(r.aclrtSetDevice(device), "aclrtSetDevice");
}
// A stream of a framework is of the device that the thread has set.
void UseDeviceOf(const Runtime& r, Stream stream) {
  Streams& streams = TheStreams();
  std::unique_lock lock(streams.mutex);
  const auto found = streams.device.find(stream);
  if (found == streams.device.end()) return;
  const std::int32_t device = found->second;
  lock.unlock();
  Use(r, device);
}

std::int32_t Count() {
  std::uint32_t count = 0;
  const int code =
      Guard([&](const Runtime& r) { Must(r.aclrtGetDeviceCount(&count), "aclrtGetDeviceCount"); });
  return code == ANYOP_OK ? std::int32_t(count) : 0;
}

int Properties(std::int32_t device, anyop_device_properties* to) {
  return Guard([&](const Runtime& r) {
    Use(r, device);
    std::int64_t cores = 0;
    std::size_t free = 0, total = 0;
    Must(r.aclrtGetDeviceInfo(std::uint32_t(device), kVectorCores, &cores), "aclrtGetDeviceInfo");
    Must(r.aclrtGetMemInfo(kHbm, &free, &total), "aclrtGetMemInfo");
    const char* const name = r.aclrtGetSocName();
    const anyop_device_properties properties{.size = std::min<std::uint32_t>(to->size, sizeof *to),
                                             .cores = std::int32_t(cores),
                                             .total_bytes = total,
                                             .free_bytes = free,
                                             .name = name ? name : "Ascend",
                                             .features = ""};
    std::memcpy(to, &properties, properties.size);
  });
}

int Allocate(std::int32_t device, anyop_stream, std::uint64_t bytes, void** memory) {
  return Guard([&](const Runtime& r) {
    Use(r, device);
    // Copies of kernels may read up to 64 bytes behind a tensor.
    if (r.aclrtMalloc(memory, bytes + 64, kHugeFirst) == kOk) return;
    throw Failure{ANYOP_OUT_OF_MEMORY,
                  "out of memory: " + std::to_string(bytes) + " bytes were asked for."};
  });
}
// aclrtFree is in no order with streams, so the work that may use the memory is waited for.
int Release(std::int32_t device, anyop_stream stream, void* memory) {
  return Guard([&](const Runtime& r) {
    if (!memory) return;
    Use(r, device);
    // The stream may be gone.
    if (r.aclrtSynchronizeStream(stream) != kOk) (void)r.aclrtSynchronizeDevice();
    Must(r.aclrtFree(memory), "aclrtFree");
  });
}

void CopyOn(const Runtime& r, Stream stream, void* to, const void* from, std::uint64_t bytes,
            int kind) {
  UseDeviceOf(r, stream);
  Must(r.aclrtMemcpyAsync(to, bytes, from, bytes, kind, stream), "aclrtMemcpyAsync");
}
int Copy(anyop_stream stream, std::int32_t to_place, void* to, std::int32_t from_place,
         const void* from, std::uint64_t bytes) {
  return Guard([&](const Runtime& r) {
    if (!bytes) return;
    const int kind = from_place == ANYOP_AT_HOST ? kToDevice
                     : to_place == ANYOP_AT_HOST ? kToHost
                                                 : kOnDevice;
    CopyOn(r, stream, to, from, bytes, kind);
  });
}
// The runtime fills with single bytes alone: what is to be there is copied.
int Fill(anyop_stream stream, void* to, std::uint64_t count, const void* item,
         std::uint64_t item_bytes) {
  return Guard([&](const Runtime& r) {
    std::vector<char> all(count * item_bytes);
    for (std::uint64_t i = 0; i < count; ++i) {
      std::memcpy(all.data() + i * item_bytes, item, item_bytes);
    }
    if (all.empty()) return;
    CopyOn(r, stream, to, all.data(), all.size(), kToDevice);
    Must(r.aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
  });
}

Stream NewStream(const Runtime& r, std::int32_t device) {
  Use(r, device);
  Stream made = nullptr;
  Must(r.aclrtCreateStream(&made), "aclrtCreateStream");
  Streams& streams = TheStreams();
  const std::lock_guard lock(streams.mutex);
  streams.device[made] = device;
  return made;
}
// NULL is the runtime's own default stream, but says "all streams" to `synchronize`.
anyop_stream DefaultStream(std::int32_t device) {
  static std::mutex once;
  const std::lock_guard making(once);
  Streams& streams = TheStreams();
  const auto at = std::size_t(device);
  {
    const std::lock_guard lock(streams.mutex);
    if (streams.of_device.size() <= at) streams.of_device.resize(at + 1);
    if (streams.of_device[at]) return streams.of_device[at];
  }
  Stream made = nullptr;
  if (Guard([&](const Runtime& r) { made = NewStream(r, device); }) != ANYOP_OK) return nullptr;
  const std::lock_guard lock(streams.mutex);
  return streams.of_device[at] = made;
}
int CreateStream(std::int32_t device, anyop_stream* stream) {
  return Guard([&](const Runtime& r) { *stream = NewStream(r, device); });
}
int DestroyStream(anyop_stream stream) {
  return Guard([&](const Runtime& r) {
    UseDeviceOf(r, stream);
    {
      Streams& streams = TheStreams();
      const std::lock_guard lock(streams.mutex);
      if (std::ranges::find(streams.of_device, stream) != streams.of_device.end()) return;
      streams.device.erase(stream);
    }
    Must(r.aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
    Must(r.aclrtDestroyStream(stream), "aclrtDestroyStream");
  });
}

int CreateEvent(std::int32_t device, anyop_event* event) {
  return Guard([&](const Runtime& r) {
    Use(r, device);
    auto made = std::make_unique<EventState>(EventState{nullptr, device});
    Must(r.aclrtCreateEvent(&made->handle), "aclrtCreateEvent");
    *event = made.release();
  });
}
int DestroyEvent(anyop_event event) {
  return Guard([&](const Runtime& r) {
    const std::unique_ptr<EventState> held(&EventOf(event));
    Use(r, held->device);
    Must(r.aclrtDestroyEvent(held->handle), "aclrtDestroyEvent");
  });
}
int RecordEvent(anyop_event event, anyop_stream stream) {
  return Guard([&](const Runtime& r) {
    Use(r, EventOf(event).device);
    Must(r.aclrtRecordEvent(EventOf(event).handle, stream), "aclrtRecordEvent");
    EventOf(event).is_recorded = true;
  });
}
int WaitEvent(anyop_event event, anyop_stream stream) {
  return Guard([&](const Runtime& r) {
    if (!EventOf(event).is_recorded) return;
    UseDeviceOf(r, stream);
    Must(r.aclrtStreamWaitEvent(stream, EventOf(event).handle), "aclrtStreamWaitEvent");
  });
}
int QueryEvent(anyop_event event, std::int32_t* is_complete) {
  return Guard([&](const Runtime& r) {
    int status = kComplete;
    if (EventOf(event).is_recorded) {
      Must(r.aclrtQueryEventStatus(EventOf(event).handle, &status), "aclrtQueryEventStatus");
    }
    *is_complete = status == kComplete;
  });
}
int SynchronizeEvent(anyop_event event) {
  return Guard([&](const Runtime& r) {
    if (!EventOf(event).is_recorded) return;
    Must(r.aclrtSynchronizeEvent(EventOf(event).handle), "aclrtSynchronizeEvent");
  });
}
int Elapsed(anyop_event from, anyop_event to, double* milliseconds) {
  return Guard([&](const Runtime& r) {
    float value = 0;
    Must(r.aclrtEventElapsedTime(&value, EventOf(from).handle, EventOf(to).handle),
         "aclrtEventElapsedTime");
    *milliseconds = double(value);
  });
}

// What went wrong on a stream comes from here, and not as a late error.
int Synchronize(std::int32_t device, anyop_stream stream) {
  return Guard([&](const Runtime& r) {
    Use(r, device);
    if (stream) {
      Must(r.aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
    } else {
      Must(r.aclrtSynchronizeDevice(), "aclrtSynchronizeDevice");
    }
  });
}
int LateError(std::int32_t, anyop_stream, std::int32_t, char*, std::uint64_t) { return ANYOP_OK; }

int Activate(std::int32_t device) {
  return Guard([&](const Runtime& r) { Use(r, device); });
}

constexpr anyop_device kDevice{
    .size = sizeof(anyop_device),
    .version = ANYOP_DEVICE_VERSION,
    .word = "aicore",
    .dlpack_type = 12,
    .host_can_read = 0,
    .runs = "",
    .error_text = &LastFailure,
    .count = &Count,
    .properties = &Properties,
    .allocate = &Allocate,
    .release = &Release,
    .copy = &Copy,
    .fill = &Fill,
    .default_stream = &DefaultStream,
    .create_stream = &CreateStream,
    .destroy_stream = &DestroyStream,
    .create_event = &CreateEvent,
    .destroy_event = &DestroyEvent,
    .record_event = &RecordEvent,
    .wait_event = &WaitEvent,
    .query_event = &QueryEvent,
    .synchronize_event = &SynchronizeEvent,
    .elapsed = &Elapsed,
    .synchronize = &Synchronize,
    .late_error = &LateError,
    .activate = &Activate,
    .submit = nullptr,
    .check_indices = nullptr,
    .failed = nullptr,
    .pack = nullptr,
    .unpack = nullptr,
    .takes_host_calls = 1,
    .reserved = 0,
    .allocation = nullptr,
};

}  // namespace
}  // namespace aicore

extern "C" ANYOP_EXPORT const anyop_device_info* anyop_device_library() {
  static const anyop_device_info info{
      sizeof info, ANYOP_DEVICE_VERSION, "anyop_aicore", &aicore::kDevice, 0, 0, nullptr};
  return &info;
}
