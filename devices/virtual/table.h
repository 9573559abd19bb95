// SPDX-License-Identifier: Apache-2.0
// The table of a virtual device, and what a test may ask beyond it.
//
// Devices in the host's memory. The memory of each is one file in memory that is mapped twice:
// without any rights at the addresses that everybody is given, and once more where the threads of
// its streams look. A program that reads what lies on the device is stopped with a line that names
// device and offset.
#pragma once
#include <cstdint>

#include "anyop/device.h"

namespace virtual_device {

extern const anyop_device kTable;

// As functions of the table answer: ANYOP_OK, or a code and a text.
int Hold(anyop_stream stream, int change);  // 1: one more who holds it; -1: one less
int Finish(anyop_stream stream);            // waits, and tells nobody what went wrong
struct Counts {
  std::uint32_t streams, threads, allocations;
  std::uint64_t launches, skipped, copies, waits;
};
int CountWork(std::int32_t device, Counts* to);

}  // namespace virtual_device
