// SPDX-License-Identifier: Apache-2.0
// torch's device, over the table of a device that runs the host's code (include/anyop/device.h):
// its streams, its errors, and what lives until work is over.
#pragma once
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <memory>
#include <string>

#include "anyop/device.h"

namespace virtual_torch {

constexpr auto kType = c10::DeviceType::PrivateUse1;
constexpr int kMostDevices = 16;

// Null until the device is started.
const anyop_device* Table();
void SetTable(const anyop_device* table);
std::string Word();  // of the device, once there is one

// Raises what a function of the table has failed with; late errors are raised as they are.
void Must(int code);
[[noreturn]] void Raise(int code, const std::string& text);

c10::Device DeviceAt(c10::DeviceIndex index);  // below 0: the current one
void SetCurrentDevice(c10::DeviceIndex index);
// Both are state of the calling thread. Stream 0 is the default one of its device, the number of
// every other is its native handle.
c10::Stream CurrentStream(c10::DeviceIndex index);
void SetCurrentStream(const c10::Stream& stream);
c10::Stream DefaultStream(c10::DeviceIndex index);
// torch never gives a stream back: they come from a small pool, one after the other.
c10::Stream PooledStream(c10::DeviceIndex index);
anyop_stream Native(const c10::Stream& stream);
anyop_stream CurrentNative(c10::DeviceIndex index);

// Wait, and raise the stream's (the device's) late error.
void Synchronize(const c10::Stream& stream);
void Synchronize(c10::DeviceIndex index);
void RaiseLate(c10::DeviceIndex index, anyop_stream stream);  // null: that of any stream
// Work that is put on `after` later waits for what is on `before` now.
void Order(anyop_stream before, anyop_stream after, c10::DeviceIndex index);

// `what` lives until the work that is on the stream now is over. It dies on a thread of the host:
// one of the device would wait for Python's lock, which may be held by who waits for the device.
void KeepUntilOver(std::shared_ptr<void> what, anyop_stream stream, c10::DeviceIndex index);
void Sweep(anyop_stream stream);  // of what is over

}  // namespace virtual_torch
