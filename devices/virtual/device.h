// SPDX-License-Identifier: Apache-2.0
// The devices, and which handles stand for which of their streams and events.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "memory.h"
#include "stream.h"
#include "table.h"
#include "trace.h"

namespace virtual_device {

class Device {
 public:
  Device(int its_number, std::uint64_t bytes, std::uint64_t slack_bytes)
      : number(its_number), memory(its_number, bytes, slack_bytes) {}
  // A new stream, or one that was given back. They are not destroyed, so that neither threads nor
  // numbers of their addresses grow with the streams that a program makes.
  Stream* Begin();
  // The work that is on it still ends; then its late error is the device's.
  void End(Stream* stream);
  std::vector<Stream*> Streams();
  // The oldest of all streams, those that have ended too.
  std::optional<LateError> TakeLateError();
  void Count(Counts* to);

  const int number;
  Memory memory;
  Counters counters;
  Stream* first = nullptr;

 private:
  std::optional<LateError> TakeOldest();

  std::mutex mutex_;
  std::uint64_t begun_ = 0;
  std::uint32_t threads_ = 0;
  std::vector<Stream*> streams_, idle_;
  std::deque<LateError> left_behind_;  // by streams that have ended
};

// Handles are numbers that are never given twice: one that is dead is known as such.
template <class T>
class Handles {
 public:
  explicit Handles(std::uintptr_t first) : next_(first) {}
  void* Add(T object) {
    const std::lock_guard lock(mutex_);
    objects_[next_] = std::move(object);
    return reinterpret_cast<void*>(next_++);
  }
  T Find(void* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    return found == objects_.end() ? T{} : found->second;
  }
  T Take(void* handle) {
    const std::lock_guard lock(mutex_);
    auto node = objects_.extract(reinterpret_cast<std::uintptr_t>(handle));
    return node ? std::move(node.mapped()) : T{};
  }

 private:
  std::mutex mutex_;
  std::uintptr_t next_;
  std::unordered_map<std::uintptr_t, T> objects_;
};

// What there is. It is made on first use and lasts to the end of the process, as streams work while
// static objects are destroyed.
struct Machine {
  std::vector<Device*> devices;
  std::vector<void*> first_streams;
  Handles<Stream*> streams{kFirstStream};
  Handles<std::shared_ptr<Event>> events{kFirstEvent};
};

Machine& TheMachine();  // made by the first call
bool IsForked();

}  // namespace virtual_device
