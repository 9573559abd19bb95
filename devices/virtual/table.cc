// SPDX-License-Identifier: Apache-2.0
#include "table.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "device.h"
#include "settings.h"

namespace virtual_device {
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
    const Settings& settings = TheSettings();
    if (!settings.why_none.empty()) throw Refusal{ANYOP_NOT_AVAILABLE, settings.why_none};
    f(TheMachine());
    return ANYOP_OK;
  } catch (const Refusal& refusal) {
    return Failed(refusal.code, refusal.text);
  } catch (const std::bad_alloc&) {
    return Failed(ANYOP_OUT_OF_MEMORY, "the host has no memory left.");
  } catch (const std::exception& e) {
    return Failed(ANYOP_INTERNAL, e.what());
  }
}

std::string PlaceName(int place) {
  return place == ANYOP_AT_HOST ? "the host's memory" : NameOf(place);
}

[[noreturn]] void RefuseHandle(const void* handle, const std::string& kind) {
  Refuse(handle ? "the " + kind + " is none of " + kWord + ", or it was destroyed."
                : "there is no " + kind + ".");
}

Device& DeviceAt(Machine& machine, std::int32_t number) {
  const auto count = std::int32_t(machine.devices.size());
  if (number >= 0 && number < count) return *machine.devices[std::size_t(number)];
  const std::string last = std::to_string(count - 1);
  Refuse(
      "there is no device " + std::to_string(number) + ", but " +
      (count == 1 ? "device 0" : "devices 0 " + std::string(count == 2 ? "and " : "to ") + last) +
      ".");
}

Stream& StreamOf(Machine& machine, anyop_stream handle) {
  if (Stream* stream = machine.streams.Find(handle)) return *stream;
  RefuseHandle(handle, "stream");
}

Stream& StreamOf(Machine& machine, std::int32_t device, anyop_stream handle) {
  Stream& stream = StreamOf(machine, handle);
  if (DeviceAt(machine, device).number == stream.device) return stream;
  Refuse("the stream is one of " + NameOf(stream.device) + ", but must be of " + NameOf(device) +
         ".");
}

std::shared_ptr<Event> EventOf(Machine& machine, anyop_event handle) {
  if (std::shared_ptr<Event> event = machine.events.Find(handle)) return event;
  RefuseHandle(handle, "event");
}

char* View(Device& device, const void* address, std::uint64_t bytes, const std::string& what) {
  std::string why;
  if (char* view = device.memory.View(address, bytes, &why)) return view;
  Refuse(what + why);
}

const char* ErrorText() { return t_error; }

std::int32_t Count() {
  const Settings& settings = TheSettings();
  if (!settings.why_none.empty()) Failed(ANYOP_NOT_AVAILABLE, settings.why_none);
  return settings.devices;
}

int Properties(std::int32_t number, anyop_device_properties* to) {
  return Answer([&](Machine& machine) {
    Device& device = DeviceAt(machine, number);
    const anyop_device_properties all = {to->size,
                                         TheSettings().cores,
                                         device.memory.bytes(),
                                         device.memory.FreeBytes(),
                                         TheSettings().name.c_str(),
                                         ""};
    std::memcpy(to, &all, std::min<std::size_t>(to->size, sizeof all));
  });
}

// ---- Memory.

int Allocate(std::int32_t number, anyop_stream handle, std::uint64_t bytes, void** memory) {
  return Answer([&](Machine& machine) {
    Stream& stream = StreamOf(machine, number, handle);
    Device& device = DeviceAt(machine, number);
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
  return Answer([&](Machine& machine) {
    Stream& stream = StreamOf(machine, number, handle);
    Device& device = DeviceAt(machine, number);
    std::string why;
    if (!device.memory.Release(memory, &why)) Refuse(why);
    stream.Push([&device, memory] { device.memory.Close(memory); });
  });
}

int Allocation(const void* address, anyop_allocation* to) {
  return Answer([&](Machine& machine) {
    for (Device* device : machine.devices) {
      anyop_allocation found = {to->size, device->number, nullptr, 0};
      if (!device->memory.Around(address, &found.begin, &found.bytes)) continue;
      std::memcpy(to, &found, std::min<std::size_t>(to->size, sizeof found));
      return;
    }
    Refuse("the address lies in no allocation.");
  });
}

char* AtPlace(Machine& machine, std::int32_t place, const void* address, std::uint64_t bytes) {
  if (place != ANYOP_AT_HOST) return View(DeviceAt(machine, place), address, bytes, "");
  for (Device* device : machine.devices) {
    if (device->memory.OffsetSeen(address) < 0) continue;
    Refuse("an address of " + NameOf(device->number) + " is given as one of the host's memory.");
  }
  return static_cast<char*>(const_cast<void*>(address));
}

int Copy(anyop_stream handle, std::int32_t to_place, void* to, std::int32_t from_place,
         const void* from, std::uint64_t bytes) {
  return Answer([&](Machine& machine) {
    Stream& stream = StreamOf(machine, handle);
    if (bytes == 0) return;
    char* target = AtPlace(machine, to_place, to, bytes);
    const char* source = AtPlace(machine, from_place, from, bytes);
    if (IsTraced()) {
      Trace(stream.device, handle,
            "copies " + std::to_string(bytes) + " bytes from " + PlaceName(from_place) + " to " +
                PlaceName(to_place));
    }
    Counters& counters = machine.devices[stream.device]->counters;
    stream.Push([&counters, target, source, bytes] {
      std::memmove(target, source, bytes);
      ++counters.copies;
    });
  });
}

int Fill(anyop_stream handle, void* to, std::uint64_t count, const void* item,
         std::uint64_t item_bytes) {
  return Answer([&](Machine& machine) {
    Stream& stream = StreamOf(machine, handle);
    if (count == 0 || item_bytes == 0) return;
    if (count > ~std::uint64_t{0} / item_bytes) Refuse("a fill has more bytes than there can be.");
    char* target = View(*machine.devices[stream.device], to, count * item_bytes, "");
    const std::string kept(static_cast<const char*>(item), item_bytes);
    if (IsTraced()) {
      Trace(stream.device, handle, "fills " + std::to_string(count * item_bytes) + " bytes");
    }
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
  Answer(
      [&](Machine& machine) { stream = machine.first_streams[DeviceAt(machine, number).number]; });
  return stream;
}

int CreateStream(std::int32_t number, anyop_stream* stream) {
  return Answer(
      [&](Machine& machine) { *stream = machine.streams.Add(DeviceAt(machine, number).Begin()); });
}

int DestroyStream(anyop_stream handle) {
  if (IsForked()) return ANYOP_OK;
  return Answer([&](Machine& machine) {
    Stream& stream = StreamOf(machine, handle);
    Device& device = *machine.devices[stream.device];
    if (&stream == device.first) Refuse("the default stream cannot be destroyed.");
    if (machine.streams.Take(handle)) device.End(&stream);
  });
}

int Synchronize(std::int32_t number, anyop_stream handle) {
  return Answer([&](Machine& machine) {
    Device& device = DeviceAt(machine, number);
    std::vector<Stream*> streams = device.Streams();
    if (handle) streams = {&StreamOf(machine, number, handle)};
    if (IsTraced()) TraceWait(number, handle ? NameOfStream(handle) : "all streams");
    ++device.counters.waits;
    std::vector<std::shared_ptr<Event>> ends;
    for (Stream* stream : streams) {
      const auto& end = ends.emplace_back(std::make_shared<Event>(number));
      stream->PushMark([end, record = end->Record()] { end->Reach(record); });
    }
    for (const auto& end : ends) end->Wait(1);
  });
}

int TakeLate(std::int32_t number, anyop_stream handle, std::int32_t all_streams, char* message,
             std::uint64_t message_bytes) {
  std::optional<LateError> error;
  int code = Answer([&](Machine& machine) {
    Device& device = DeviceAt(machine, number);
    error =
        all_streams ? device.TakeLateError() : StreamOf(machine, number, handle).TakeLateError();
  });
  if (!error) return code;
  if (message_bytes) std::snprintf(message, message_bytes, "%s", error->text.c_str());
  return Failed(error->code, error->text);
}

// ---- Events.

int CreateEvent(std::int32_t number, anyop_event* event) {
  return Answer([&](Machine& machine) {
    *event = machine.events.Add(std::make_shared<Event>(DeviceAt(machine, number).number));
  });
}

int DestroyEvent(anyop_event handle) {
  if (IsForked()) return ANYOP_OK;
  return Answer([&](Machine& machine) {
    EventOf(machine, handle);
    machine.events.Take(handle);
  });
}

int RecordEvent(anyop_event event_handle, anyop_stream handle) {
  return Answer([&](Machine& machine) {
    Stream& stream = StreamOf(machine, handle);
    const auto event = EventOf(machine, event_handle);
    if (event->device != stream.device) {
      Refuse("an event of " + NameOf(event->device) + " is recorded on a stream of " +
             NameOf(stream.device) + ".");
    }
    if (IsTraced()) Trace(stream.device, handle, "records " + NameOfEvent(event_handle));
    stream.PushMark([event, record = event->Record(), &stream] { event->Reach(record, &stream); });
  });
}

int WaitEvent(anyop_event event_handle, anyop_stream handle) {
  return Answer([&](Machine& machine) {
    Stream& stream = StreamOf(machine, handle);
    const auto event = EventOf(machine, event_handle);
    const auto wait = [event, record = event->Recorded(), behind = stream.LastLaunch(), &stream] {
      if (const auto late = event->Wait(record)) stream.Inherit(*late, behind);
    };
    if (IsTraced()) Trace(stream.device, handle, "waits for " + NameOfEvent(event_handle));
    stream.Push(wait, false);
  });
}

int QueryEvent(anyop_event event, std::int32_t* is_complete) {
  return Answer([&](Machine& machine) { *is_complete = EventOf(machine, event)->IsComplete(); });
}

int SynchronizeEvent(anyop_event handle) {
  return Answer([&](Machine& machine) {
    const auto event = EventOf(machine, handle);
    if (IsTraced()) TraceWait(event->device, NameOfEvent(handle));
    ++machine.devices[event->device]->counters.waits;
    event->Wait(event->Recorded());
    if (const auto late = event->TakeLateError()) throw Refusal{late->code, late->text};
  });
}

int Elapsed(anyop_event from, anyop_event to, double* milliseconds) {
  return Answer([&](Machine& machine) {
    const auto begin = EventOf(machine, from)->When(), end = EventOf(machine, to)->When();
    if (!begin || !end) Refuse("an event was not recorded, or its stream has not reached it.");
    *milliseconds = std::chrono::duration<double, std::milli>(*end - *begin).count();
  });
}

// ---- Work.

int Submit(anyop_stream handle, const anyop_launch* launch) {
  return Answer([&](Machine& machine) {
    Stream& stream = StreamOf(machine, handle);
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
      address = View(*machine.devices[stream.device], address, 0, what);
      std::memcpy(block.get() + 8 + at, &address, sizeof address);
    }
    if (IsTraced()) Trace(stream.device, handle, name);
    stream.Launch(*launch, std::move(block));
  });
}

}  // namespace

constinit const anyop_device kTable = {
    .size = sizeof(anyop_device),
    .version = ANYOP_DEVICE_VERSION,
    .word = kWord,
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
    .takes_host_calls = 0,
    .reserved = 0,
    .allocation = &Allocation,
};

int Hold(anyop_stream handle, int change) {
  return Answer([&](Machine& machine) { StreamOf(machine, handle).Hold(change); });
}

int Finish(anyop_stream handle) {
  int device = 0;
  const int code = Answer([&](Machine& machine) { device = StreamOf(machine, handle).device; });
  return code ? code : Synchronize(device, handle);
}

int CountWork(std::int32_t device, Counts* to) {
  return Answer([&](Machine& machine) { DeviceAt(machine, device).Count(to); });
}

}  // namespace virtual_device
