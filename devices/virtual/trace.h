// SPDX-License-Identifier: Apache-2.0
// What the host asks of streams, a line each on standard error, in the order in which it asks:
//
//   npu:0 stream 0: aten::add
//   npu:0 stream 0: records event 3
//   npu:0 stream 2: waits for event 3
//   npu:0: the host waits for stream 2
#pragma once
#include <cstdint>
#include <string>

#include "anyop/device.h"

namespace virtual_device {

constexpr std::uintptr_t kFirstStream = 0x100, kFirstEvent = std::uintptr_t{1} << 40;

std::string NameOf(int device);  // "npu:0"

bool IsTraced();  // who calls the next two asks first, and builds no text otherwise
// `what` is on the stream now.
void Trace(int device, anyop_stream stream, const std::string& what);
// The host waits for it.
void TraceWait(int device, const std::string& what);
std::string NameOfStream(anyop_stream stream);
std::string NameOfEvent(anyop_event event);

}  // namespace virtual_device
