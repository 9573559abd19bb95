// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "fault.h"
#include "settings.h"

namespace virtual_device {
namespace {

std::atomic<bool> g_is_forked{false};

Machine* Make() {
  const Settings& settings = TheSettings();
  SetSeed(settings.seed);
  SetFirstDelay(settings.longest_delay_us);
  auto* machine = new Machine;
  for (int d = 0; d < settings.devices; ++d) {
    Device* device = new Device(d, settings.memory_bytes, settings.slack_bytes);
    machine->devices.push_back(device);
    device->first = device->Begin();
    machine->first_streams.push_back(machine->streams.Add(device->first));
  }
  NameFaults(machine);
  pthread_atfork(nullptr, nullptr, [] { g_is_forked = true; });
  std::atexit([] {
    if (!g_is_forked) EndAll();
  });
  return machine;
}

}  // namespace

Stream* Device::Begin() {
  const std::lock_guard lock(mutex_);
  Stream* stream;
  if (idle_.empty()) {
    stream = new Stream(number, &counters);
    stream->Start();
    ++threads_;
  } else {
    stream = idle_.back();
    idle_.pop_back();
  }
  stream->Begin(begun_++ * std::uint64_t(TheSettings().devices) + std::uint64_t(number));
  streams_.push_back(stream);
  return stream;
}

void Device::End(Stream* stream) {
  stream->Push([this, stream] {
    const std::lock_guard lock(mutex_);
    std::optional<LateError> error = stream->LeaveLateError();
    if (error) left_behind_.push_back(std::move(*error));
    std::erase(streams_, stream);
    idle_.push_back(stream);
  });
}

std::vector<Stream*> Device::Streams() {
  const std::lock_guard lock(mutex_);
  return streams_;
}

std::optional<LateError> Device::TakeLateError() {
  const std::lock_guard lock(mutex_);
  std::optional<LateError> error = TakeOldest();
  if (!error) return error;
  // Streams that waited for it have it, too.
  for (Stream* stream : streams_) stream->DropLateError(error->order);
  std::erase_if(left_behind_, [&](const LateError& left) { return left.order == error->order; });
  return error;
}

std::optional<LateError> Device::TakeOldest() {
  const auto order = [](Stream* s) { return s->LateErrorOrder(); };
  for (;;) {
    std::erase_if(left_behind_, [](const LateError& left) { return left.ToldBefore() != 0; });
    const auto left = std::ranges::min_element(left_behind_, {}, &LateError::order);
    const auto live = std::ranges::min_element(streams_, {}, order);  // the first is never ended
    const bool is_left = left != left_behind_.end();
    if (is_left && left->order < order(*live)) {
      LateError error = std::move(*left);
      left_behind_.erase(left);
      if (error.Tell()) return error;
      continue;
    }
    if (order(*live) == ~std::uint64_t{0}) return std::nullopt;
    // Somebody else may have taken it in between.
    if (std::optional<LateError> error = (*live)->TakeLateError()) return error;
  }
}

void Device::Count(Counts* to) {
  const std::lock_guard lock(mutex_);
  *to = {std::uint32_t(streams_.size()),
         threads_,
         memory.Allocations(),
         counters.launches,
         counters.skipped,
         counters.copies,
         counters.waits};
}

Settings& TheSettings() {
  static auto& settings = *new Settings(ReadSettings());  // work may outlive static objects
  return settings;
}

Machine& TheMachine() {
  static Machine* const machine = Make();
  return *machine;
}

bool IsForked() { return g_is_forked; }

}  // namespace virtual_device
