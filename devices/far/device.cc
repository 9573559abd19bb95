// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "fault.h"

namespace far {
namespace {

std::atomic<bool> g_is_forked{false};
std::atomic<std::uint64_t> g_seed{0}, g_memory_bytes{0};

std::uint64_t Setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

Far* Make() {
  const std::uint64_t bytes = Setting("FAR_MEMORY_BYTES", std::uint64_t{1} << 30);
  SetSeed(g_seed ? g_seed.load() : Setting("FAR_SEED", 1));
  SetFirstDelay(std::uint32_t(Setting("FAR_DELAY_US", 100)));
  auto* far = new Far;
  for (int d = 0; d < kDevices; ++d) {
    Device* device = new Device(d, g_memory_bytes ? g_memory_bytes.load() : bytes);
    far->devices[d] = device;
    device->first = device->Begin();
    far->first_streams[d] = far->streams.Add(device->first);
  }
  NameFaults(far);
  pthread_atfork(nullptr, nullptr, [] { g_is_forked = true; });
  std::atexit([] {
    if (!g_is_forked) EndAll();
  });
  return far;
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
  stream->Begin(begun_++ * kDevices + std::uint64_t(number));
  streams_.push_back(stream);
  return stream;
}

void Device::End(Stream* stream) {
  stream->Push([this, stream] {
    const std::lock_guard lock(mutex_);
    std::optional<LateError> error = stream->TakeLateError();
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
    const auto left = std::ranges::min_element(left_behind_, {}, &LateError::order);
    const auto live = std::ranges::min_element(streams_, {}, order);  // the first is never ended
    const bool is_left = left != left_behind_.end();
    if (is_left && left->order < order(*live)) {
      LateError error = std::move(*left);
      left_behind_.erase(left);
      return error;
    }
    if (order(*live) == ~std::uint64_t{0}) return std::nullopt;
    // Somebody else may have taken it in between.
    if (std::optional<LateError> error = (*live)->TakeLateError()) return error;
  }
}

void Device::Count(far_counts* to) {
  const std::lock_guard lock(mutex_);
  *to = {to->size,          std::uint32_t(streams_.size()),
         threads_,          memory.Allocations(),
         counters.launches, counters.skipped,
         counters.copies,   counters.waits};
}

Far& TheFar() {
  static Far* const far = Make();
  return *far;
}

bool IsForked() { return g_is_forked; }

void SetUp(std::uint64_t seed, std::uint64_t memory_bytes) {
  g_seed = seed, g_memory_bytes = memory_bytes;
}

}  // namespace far
