// SPDX-License-Identifier: Apache-2.0
// The table of far.
#include "far.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <thread>

#include "device.h"

namespace far {
namespace {

struct Refusal {
  int code;
  std::string text;
};
[[noreturn]] void Refuse(const std::string& text) { throw Refusal{ANYOP_INVALID_ARGUMENT, text}; }

// No string, which would end before the last call of its thread: that of a destructor.
thread_local char t_error[1024];

int Failed(int code, const std::string& text) {
  std::snprintf(t_error, sizeof t_error, "%s", text.c_str());
  return code;
}

// No exception crosses the boundary.
template <class F>
int Answer(F&& f) {
  try {
    if (IsForked()) {
      throw Refusal{ANYOP_NOT_AVAILABLE,
                    "the process was forked after it had used the device, and the device's threads "
                    "are not in the child. Try the start method \"spawn\"."};
    }
    f(TheFar());
    return ANYOP_OK;
  } catch (const Refusal& refusal) {
    return Failed(refusal.code, refusal.text);
  } catch (const std::bad_alloc&) {
    return Failed(ANYOP_OUT_OF_MEMORY, "the host has no memory left.");
  } catch (const std::exception& e) {
    return Failed(ANYOP_INTERNAL, e.what());
  }
}

Device& DeviceAt(Far& far, std::int32_t number) {
  if (number >= 0 && number < kDevices) return *far.devices[number];
  Refuse("there is no device " + std::to_string(number) + ", but devices 0 and 1.");
}

Stream& StreamOf(Far& far, anyop_stream handle) {
  if (Stream* stream = far.streams.Find(handle)) return *stream;
  Refuse(handle ? "the stream is none of far, or it was destroyed." : "there is no stream.");
}

Stream& StreamOf(Far& far, std::int32_t device, anyop_stream handle) {
  Stream& stream = StreamOf(far, handle);
  if (DeviceAt(far, device).number == stream.device) return stream;
  Refuse("the stream is one of far:" + std::to_string(stream.device) +
         ", but must be of far:" + std::to_string(device) + ".");
}

std::shared_ptr<Event> EventOf(Far& far, anyop_event handle) {
  if (std::shared_ptr<Event> event = far.events.Find(handle)) return event;
  Refuse(handle ? "the event is none of far, or it was destroyed." : "there is no event.");
}

char* View(Device& device, const void* address, std::uint64_t bytes, const std::string& what) {
  std::string why;
  if (char* view = device.memory.View(address, bytes, &why)) return view;
  Refuse(what + why);
}

const char* ErrorText() { return t_error; }

std::int32_t Count() { return kDevices; }

int Properties(std::int32_t number, anyop_device_properties* to) {
  return Answer([&](Far& far) {
    Device& device = DeviceAt(far, number);
    const anyop_device_properties all = {to->size,
                                         std::int32_t(std::thread::hardware_concurrency()),
                                         device.memory.bytes(),
                                         device.memory.FreeBytes(),
                                         "far",
                                         ""};
    std::memcpy(to, &all, std::min<std::size_t>(to->size, sizeof all));
  });
}

// ---- Memory.

int Allocate(std::int32_t number, anyop_stream handle, std::uint64_t bytes, void** memory) {
  return Answer([&](Far& far) {
    Stream& stream = StreamOf(far, number, handle);
    Device& device = DeviceAt(far, number);
    std::string why;
    void* given = device.memory.Reserve(bytes, &why);
    if (!given) throw Refusal{ANYOP_OUT_OF_MEMORY, why};
    stream.Push([&device, given] { device.memory.Open(given); });
    *memory = given;
  });
}

// In a forked child too: there is nothing that the child could give back.
int Release(std::int32_t number, anyop_stream handle, void* memory) {
  if (IsForked() || !memory) return ANYOP_OK;
  return Answer([&](Far& far) {
    Stream& stream = StreamOf(far, number, handle);
    Device& device = DeviceAt(far, number);
    std::string why;
    if (!device.memory.Release(memory, &why)) Refuse(why);
    stream.Push([&device, memory] { device.memory.Close(memory); });
  });
}

char* AtPlace(Far& far, std::int32_t place, const void* address, std::uint64_t bytes) {
  if (place != ANYOP_AT_HOST) return View(DeviceAt(far, place), address, bytes, "");
  for (Device* device : far.devices) {
    if (device->memory.OffsetSeen(address) < 0) continue;
    Refuse("an address of far:" + std::to_string(device->number) +
           " is given as one of the host's memory.");
  }
  return static_cast<char*>(const_cast<void*>(address));
}

int Copy(anyop_stream handle, std::int32_t to_place, void* to, std::int32_t from_place,
         const void* from, std::uint64_t bytes) {
  return Answer([&](Far& far) {
    Stream& stream = StreamOf(far, handle);
    if (bytes == 0) return;
    char* target = AtPlace(far, to_place, to, bytes);
    const char* source = AtPlace(far, from_place, from, bytes);
    Counters& counters = far.devices[stream.device]->counters;
    stream.Push([&counters, target, source, bytes] {
      std::memmove(target, source, bytes);
      ++counters.copies;
    });
  });
}

int Fill(anyop_stream handle, void* to, std::uint64_t count, const void* item,
         std::uint64_t item_bytes) {
  return Answer([&](Far& far) {
    Stream& stream = StreamOf(far, handle);
    if (count == 0 || item_bytes == 0) return;
    if (count > ~std::uint64_t{0} / item_bytes) Refuse("a fill has more bytes than there can be.");
    char* target = View(*far.devices[stream.device], to, count * item_bytes, "");
    const std::string kept(static_cast<const char*>(item), item_bytes);
    stream.Push([target, count, kept] {
      for (std::uint64_t i = 0; i < count; ++i) {
        std::memcpy(target + i * kept.size(), kept.data(), kept.size());
      }
    });
  });
}

// ---- Streams.

anyop_stream DefaultStream(std::int32_t number) {
  anyop_stream stream = nullptr;
  Answer([&](Far& far) { stream = far.first_streams[DeviceAt(far, number).number]; });
  return stream;
}

int CreateStream(std::int32_t number, anyop_stream* stream) {
  return Answer([&](Far& far) { *stream = far.streams.Add(DeviceAt(far, number).Begin()); });
}

int DestroyStream(anyop_stream handle) {
  if (IsForked()) return ANYOP_OK;
  return Answer([&](Far& far) {
    Stream& stream = StreamOf(far, handle);
    Device& device = *far.devices[stream.device];
    if (&stream == device.first) Refuse("the default stream cannot be destroyed.");
    if (far.streams.Take(handle)) device.End(&stream);
  });
}

int Synchronize(std::int32_t number, anyop_stream handle) {
  return Answer([&](Far& far) {
    Device& device = DeviceAt(far, number);
    std::vector<Stream*> streams = device.Streams();
    if (handle) streams = {&StreamOf(far, number, handle)};
    ++device.counters.waits;
    std::vector<std::shared_ptr<Event>> ends;
    for (Stream* stream : streams) {
      const auto& end = ends.emplace_back(std::make_shared<Event>(number));
      stream->Push([end, record = end->Record()] { end->Reach(record); }, false);
    }
    for (const auto& end : ends) end->Wait(1);
  });
}

int TakeLate(std::int32_t number, anyop_stream handle, std::int32_t all_streams, char* message,
             std::uint64_t message_bytes) {
  std::optional<LateError> error;
  int code = Answer([&](Far& far) {
    Device& device = DeviceAt(far, number);
    error = all_streams ? device.TakeLateError() : StreamOf(far, number, handle).TakeLateError();
  });
  if (!error) return code;
  if (message_bytes) std::snprintf(message, message_bytes, "%s", error->text.c_str());
  return Failed(error->code, error->text);
}

// ---- Events.

int CreateEvent(std::int32_t number, anyop_event* event) {
  return Answer([&](Far& far) {
    *event = far.events.Add(std::make_shared<Event>(DeviceAt(far, number).number));
  });
}

int DestroyEvent(anyop_event handle) {
  if (IsForked()) return ANYOP_OK;
  return Answer([&](Far& far) {
    EventOf(far, handle);
    far.events.Take(handle);
  });
}

int RecordEvent(anyop_event event_handle, anyop_stream handle) {
  return Answer([&](Far& far) {
    Stream& stream = StreamOf(far, handle);
    const auto event = EventOf(far, event_handle);
    if (event->device != stream.device) {
      Refuse("an event of far:" + std::to_string(event->device) +
             " is recorded on a stream of far:" + std::to_string(stream.device) + ".");
    }
    stream.Push([event, record = event->Record(), &stream] { event->Reach(record, &stream); },
                false);
  });
}

int WaitEvent(anyop_event event_handle, anyop_stream handle) {
  return Answer([&](Far& far) {
    Stream& stream = StreamOf(far, handle);
    const auto event = EventOf(far, event_handle);
    const auto wait = [event, record = event->Recorded(), &stream] {
      if (const auto late = event->Wait(record)) stream.Inherit(*late);
    };
    stream.Push(wait, false);
  });
}

int QueryEvent(anyop_event event, std::int32_t* is_complete) {
  return Answer([&](Far& far) { *is_complete = EventOf(far, event)->IsComplete(); });
}

int SynchronizeEvent(anyop_event handle) {
  return Answer([&](Far& far) {
    const auto event = EventOf(far, handle);
    ++far.devices[event->device]->counters.waits;
    event->Wait(event->Recorded());
    if (const auto late = event->TakeLateError()) throw Refusal{late->code, late->text};
  });
}

int Elapsed(anyop_event from, anyop_event to, double* milliseconds) {
  return Answer([&](Far& far) {
    const auto begin = EventOf(far, from)->When(), end = EventOf(far, to)->When();
    if (!begin || !end) Refuse("an event was not recorded, or its stream has not reached it.");
    *milliseconds = std::chrono::duration<double, std::milli>(*end - *begin).count();
  });
}

// ---- Work.

int Submit(anyop_stream handle, const anyop_launch* launch) {
  return Answer([&](Far& far) {
    Stream& stream = StreamOf(far, handle);
    const std::string name = launch->name;
    // 8 bytes behind what is 16-byte aligned: a block may count on no more than 8.
    std::shared_ptr<char[]> block(new char[launch->block_bytes + 8]);
    std::memcpy(block.get() + 8, launch->block, launch->block_bytes);
    for (std::uint32_t i = 0; i < launch->n_addresses; ++i) {
      const std::uint32_t at = launch->addresses[i];
      const std::string what = name + ", byte " + std::to_string(at) + " of its block: ";
      if (at > launch->block_bytes || launch->block_bytes - at < sizeof(void*)) {
        Refuse(what + "the block has " + std::to_string(launch->block_bytes) + " bytes.");
      }
      void* address;
      std::memcpy(&address, block.get() + 8 + at, sizeof address);
      if (!address) continue;
      address = View(*far.devices[stream.device], address, 0, what);
      std::memcpy(block.get() + 8 + at, &address, sizeof address);
    }
    stream.Launch(*launch, std::move(block));
  });
}

constexpr anyop_device kTable = {
    .size = sizeof(anyop_device),
    .version = ANYOP_DEVICE_VERSION,
    .word = "far",
    .dlpack_type = 12,
    .host_can_read = 0,
    .runs = "cpu",
    .error_text = &ErrorText,
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
    .late_error = &TakeLate,
    .activate = nullptr,
    .submit = &Submit,
    .check_indices = nullptr,
    .failed = nullptr,
    .pack = nullptr,
    .unpack = nullptr,
};

constexpr anyop_device_info kLibrary = {.size = sizeof(anyop_device_info),
                                        .version = ANYOP_DEVICE_VERSION,
                                        .name = "far",
                                        .device = &kTable,
                                        .n_kernels = 0,
                                        .reserved = 0,
                                        .kernels = nullptr};

}  // namespace
}  // namespace far

extern "C" {

ANYOP_EXPORT const anyop_device_info* anyop_device_library() { return &far::kLibrary; }

void far_settings(std::uint64_t seed, std::uint64_t memory_bytes) {
  far::SetUp(seed, memory_bytes);
}

void far_delay(std::uint32_t longest_us) { far::SetDelay(longest_us); }

int far_hold(anyop_stream stream) {
  return far::Answer([&](far::Far& all) { far::StreamOf(all, stream).Hold(1); });
}

int far_let_go(anyop_stream stream) {
  return far::Answer([&](far::Far& all) { far::StreamOf(all, stream).Hold(-1); });
}

int far_finish(anyop_stream stream) {
  int device = 0;
  const int code = far::Answer([&](far::Far& all) { device = far::StreamOf(all, stream).device; });
  return code ? code : far::Synchronize(device, stream);
}

int far_count(std::int32_t device, far_counts* to) {
  return far::Answer([&](far::Far& all) { far::DeviceAt(all, device).Count(to); });
}
}
