// SPDX-License-Identifier: Apache-2.0
// CUDA as a device of anyop: the table that the runtime calls.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "devices/cuda/card.h"
#include "devices/cuda/index_check.h"
#include "devices/cuda/kernel_table.h"
#include "devices/cuda/strided.h"

namespace anyop::cuda {
namespace {

struct Event {
  EventHandle* handle;
  int device;
};
Event& EventOf(anyop_event event) { return *static_cast<Event*>(event); }

Pointer Address(const void* memory) { return Pointer(reinterpret_cast<std::uintptr_t>(memory)); }

int Properties(int32_t device, anyop_device_properties* to) {
  return Guard([&] {
    const Card& card = CardOf(device);
    const OnCard on(card);
    std::size_t free = 0, total = 0;
    Must(TheDriver().memory_info(&free, &total), "cuMemGetInfo");
    anyop_device_properties properties{};
    properties.size = std::min<std::uint32_t>(to->size, sizeof properties);
    properties.cores = card.cores;
    properties.total_bytes = card.total_bytes;
    properties.free_bytes = free;
    properties.name = card.name.c_str();
    properties.features = card.features.c_str();
    std::memcpy(to, &properties, properties.size);
  });
}

// What was released but not handed back to the driver may be all that is missing.
Result AllocateAgain(const Card& card, StreamHandle* stream, std::size_t bytes, Pointer* at) {
  const Driver& driver = TheDriver();
  if (CaptureOf(stream)) return kOutOfMemory;
  if (const Result result = driver.synchronize_context()) return result;
  if (const Result result = driver.trim_pool(card.pool, 0)) return result;
  return driver.allocate_from_pool(at, bytes, card.pool, stream);
}

int Allocate(int32_t device, anyop_stream stream, uint64_t bytes, void** memory) {
  return Guard([&] {
    const Card& card = CardOf(device);
    const OnCard on(card);
    if (!card.pool) {
      throw Failure{ANYOP_NOT_AVAILABLE, "the card has no memory in the order of streams."};
    }
    Pointer at = 0;
    const std::size_t most = std::max<std::uint64_t>(bytes, 1);
    Result result = TheDriver().allocate_from_pool(&at, most, card.pool, Handle(stream));
    if (result == kOutOfMemory) result = AllocateAgain(card, Handle(stream), most, &at);
    if (result == kOutOfMemory) {
      throw Failure{ANYOP_OUT_OF_MEMORY,
                    "out of memory: " + std::to_string(bytes) + " bytes were asked for."};
    }
    Must(result, "cuMemAllocFromPoolAsync");
    *memory = reinterpret_cast<void*>(std::uintptr_t(at));
  });
}

int Release(int32_t device, anyop_stream stream, void* memory) {
  return Guard([&] {
    if (!memory) return;
    const OnCard on(CardOf(device));
    Must(TheDriver().free(Address(memory), Handle(stream)), "cuMemFreeAsync");
  });
}

int Copy(anyop_stream stream, int32_t to_place, void* to, int32_t from_place, const void* from,
         uint64_t bytes) {
  return Guard([&] {
    if (bytes == 0) return;
    const bool is_named = !IsDefault(Handle(stream));
    const int place = to_place == ANYOP_AT_HOST ? from_place : to_place;
    const OnCard on(is_named || place == ANYOP_AT_HOST ? CardOf(Handle(stream)) : CardOf(place));
    Must(TheDriver().copy(Address(to), Address(from), bytes, Handle(stream)), "cuMemcpyAsync");
  });
}

int FillMemory(anyop_stream stream, void* to, uint64_t count, const void* item,
               uint64_t item_bytes) {
  return Guard([&] { Fill(Handle(stream), to, count, item, item_bytes); });
}

// CU_STREAM_LEGACY: what is put on it runs in order with the null stream, which frameworks mean by
// their default stream. Null itself would say "all streams" to `synchronize`.
anyop_stream DefaultStream(int32_t) { return reinterpret_cast<anyop_stream>(std::uintptr_t{1}); }

int CreateStream(int32_t device, anyop_stream* stream) {
  return Guard([&] {
    const OnCard on(CardOf(device));
    const Relaxed relaxed;
    StreamHandle* handle = nullptr;
    Must(TheDriver().create_stream(&handle, kNonBlocking), "cuStreamCreate");
    *stream = handle;
  });
}
int DestroyStream(anyop_stream stream) {
  return Guard([&] {
    if (IsDefault(Handle(stream))) return;
    ForgetStream(Handle(stream));
    Must(TheDriver().destroy_stream(Handle(stream)), "cuStreamDestroy");
  });
}

int CreateEvent(int32_t device, anyop_event* event) {
  return Guard([&] {
    const OnCard on(CardOf(device));
    auto made = std::make_unique<Event>(Event{nullptr, device});
    Must(TheDriver().create_event(&made->handle, 0), "cuEventCreate");
    *event = made.release();
  });
}
int DestroyEvent(anyop_event event) {
  return Guard([&] {
    const std::unique_ptr<Event> held(&EventOf(event));
    Must(TheDriver().destroy_event(held->handle), "cuEventDestroy");
  });
}
int RecordEvent(anyop_event event, anyop_stream stream) {
  return Guard([&] {
    const OnCard on(CardOf(EventOf(event).device));
    Must(TheDriver().record_event(EventOf(event).handle, Handle(stream)), "cuEventRecord");
  });
}
int WaitEvent(anyop_event event, anyop_stream stream) {
  return Guard([&] {
    const OnCard on(IsDefault(Handle(stream)) ? CardOf(EventOf(event).device)
                                              : CardOf(Handle(stream)));
    Must(TheDriver().wait_event(Handle(stream), EventOf(event).handle, 0), "cuStreamWaitEvent");
  });
}
int QueryEvent(anyop_event event, int32_t* is_complete) {
  return Guard([&] {
    const Relaxed relaxed;
    const Result result = TheDriver().query_event(EventOf(event).handle);
    *is_complete = result == kSuccess;
    if (result != kNotReady) Must(result, "cuEventQuery");
  });
}
int SynchronizeEvent(anyop_event event) {
  return Guard(
      [&] { Must(TheDriver().synchronize_event(EventOf(event).handle), "cuEventSynchronize"); });
}
int Elapsed(anyop_event from, anyop_event to, double* milliseconds) {
  return Guard([&] {
    float value = 0;
    Must(TheDriver().elapsed(&value, EventOf(from).handle, EventOf(to).handle),
         "cuEventElapsedTime");
    *milliseconds = double(value);
  });
}

int Synchronize(int32_t device, anyop_stream stream) {
  return Guard([&] {
    const OnCard on(CardOf(device));
    if (stream) {
      Must(TheDriver().synchronize_stream(Handle(stream)), "cuStreamSynchronize");
    } else {
      Must(TheDriver().synchronize_context(), "cuCtxSynchronize");
    }
  });
}

int LateError(int32_t device, anyop_stream stream, int32_t all_streams, char* message,
              uint64_t message_bytes) {
  std::string text;
  int kind = ANYOP_INVALID_ARGUMENT;
  const int code = Guard([&] {
    text = TakeIndexError(device, Handle(stream), all_streams != 0);
    if (!text.empty()) return;
    text = TakeBroken(device);
    kind = ANYOP_INTERNAL;
  });
  if (code != ANYOP_OK || text.empty()) return code;
  if (message_bytes) {
    const std::size_t n = std::min<std::size_t>(text.size(), message_bytes - 1);
    std::memcpy(message, text.data(), n);
    message[n] = 0;
  }
  return kind;
}

int Activate(int32_t device) {
  return Guard([&] { Must(TheDriver().set_context(CardOf(device).context), "cuCtxSetCurrent"); });
}

int Check(anyop_stream stream, const anyop_index_check* check) {
  return Guard([&] { CheckIndices(Handle(stream), *check); });
}
const uint32_t* Failed(anyop_stream stream) {
  const uint32_t* word = nullptr;
  Guard([&] { word = FailedWordOf(Handle(stream)); });
  return word;
}

int PackTensor(anyop_stream stream, const DLTensor* from, void* to) {
  return Guard([&] { Pack(Handle(stream), *from, to); });
}
int UnpackTensor(anyop_stream stream, const void* from, const DLTensor* to) {
  return Guard([&] { Unpack(Handle(stream), from, *to); });
}

constexpr anyop_device kDevice{
    .size = sizeof(anyop_device),
    .version = ANYOP_DEVICE_VERSION,
    .word = "cuda",
    .dlpack_type = 2,
    .host_can_read = 0,
    .runs = "",
    .error_text = &LastFailure,
    .count = &CardCount,
    .properties = &Properties,
    .allocate = &Allocate,
    .release = &Release,
    .copy = &Copy,
    .fill = &FillMemory,
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
    .check_indices = &Check,
    .failed = &Failed,
    .pack = &PackTensor,
    .unpack = &UnpackTensor,
    .takes_host_calls = 0,
    .reserved = 0,
    .allocation = nullptr,
};

}  // namespace

const anyop_device_info* Library() {
  static const anyop_device_info info{sizeof(anyop_device_info),
                                      ANYOP_DEVICE_VERSION,
                                      "anyop_cuda",
                                      &kDevice,
                                      KernelCount(),
                                      0,
                                      Kernels()};
  return &info;
}

}  // namespace anyop::cuda

extern "C" ANYOP_EXPORT const anyop_device_info* anyop_device_library() {
  return anyop::cuda::Library();
}
