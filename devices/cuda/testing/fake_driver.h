// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 for tests on any machine: cards whose memory is the host's, and streams whose work
// is done when somebody waits for it, and not before. It knows the part of the interface that
// devices/cuda opens (driver.h), and refuses what a card would: a function without a current
// context, an event of another card, memory that is released.
#pragma once
#include <cstdint>

namespace anyop::cuda {

// What an image is here: functions that one thread runs.
struct FakeKernel {
  const char* name;  // null: the last
  std::uint64_t bytes;
  void (*run)(const void* call);
};

// What a test sets before the driver is used, and asks. `fake_cuda` of the library returns it.
struct FakeCuda {
  int init_result = 0;
  int cards = 2;
  int major = 9, minor = 0;
  int has_pools = 1;
  std::uint64_t pool_bytes = std::uint64_t{1} << 24;  // of each card
  void* capturing = nullptr;                          // a stream that is captured
  // What it counts.
  int contexts_pushed = 0;  // and not popped
  int streams = 0, events = 0;
  std::uint64_t bytes_in_use = 0;
};

}  // namespace anyop::cuda
