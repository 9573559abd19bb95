// SPDX-License-Identifier: Apache-2.0
// far as a virtual device (devices/virtual): what it is, and what tests may ask of it.
#include "far.h"

#include <cstdlib>
#include <thread>

#include "devices/virtual/settings.h"
#include "devices/virtual/stream.h"
#include "devices/virtual/table.h"

namespace virtual_device {

const char kWord[] = "far";

Settings ReadSettings() {
  const auto number = [](const char* variable, std::uint64_t otherwise) {
    const char* text = std::getenv(variable);
    return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
  };
  return {.why_none = "",
          .name = "far",
          .cores = std::int32_t(std::thread::hardware_concurrency()),
          .memory_bytes = number("FAR_MEMORY_BYTES", std::uint64_t{1} << 30),
          .seed = number("FAR_SEED", 1),
          .longest_delay_us = std::uint32_t(number("FAR_DELAY_US", 100))};
}

namespace {

constinit const anyop_device_info kLibrary = {.size = sizeof(anyop_device_info),
                                              .version = ANYOP_DEVICE_VERSION,
                                              .name = "far",
                                              .device = &kTable,
                                              .n_kernels = 0,
                                              .reserved = 0,
                                              .kernels = nullptr};

}  // namespace
}  // namespace virtual_device

extern "C" {

ANYOP_EXPORT const anyop_device_info* anyop_device_library() { return &virtual_device::kLibrary; }

void far_settings(std::uint64_t seed, std::uint64_t memory_bytes) {
  virtual_device::Settings& settings = virtual_device::TheSettings();
  if (seed) settings.seed = seed;
  if (memory_bytes) settings.memory_bytes = memory_bytes;
}

void far_delay(std::uint32_t longest_us) { virtual_device::SetDelay(longest_us); }

int far_hold(anyop_stream stream) { return virtual_device::Hold(stream, 1); }

int far_let_go(anyop_stream stream) { return virtual_device::Hold(stream, -1); }

int far_finish(anyop_stream stream) { return virtual_device::Finish(stream); }

int far_count(std::int32_t device, far_counts* to) {
  virtual_device::Counts counts = {};
  const int code = virtual_device::CountWork(device, &counts);
  if (code != ANYOP_OK) return code;
  *to = {to->size,        counts.streams, counts.threads, counts.allocations,
         counts.launches, counts.skipped, counts.copies,  counts.waits};
  return code;
}
}
