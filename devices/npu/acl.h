// SPDX-License-Identifier: Apache-2.0
// What the functions of the runtime have in common. Their names and arguments are those that
// torch_npu's sources call them with, and that Ascend's public documentation gives; no header of
// CANN is in here or was read.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "devices/virtual/device.h"
#include "devices/virtual/settings.h"
#include "devices/virtual/table.h"

#define ACL extern "C" __attribute__((visibility("default")))

namespace npu {

// Codes, as documented.
enum Code : int {
  kOk = 0,
  kRepeatedStart = 100002,
  kInvalid = 107000,
  kNoDevice = 107002,  // of this thread
  kUnsupported = 207000,
  kNoMemory = 207001,
  kInternal = 507000,
};

// The text of this thread, for aclGetRecentErrMsg.
int Fail(int code, const std::string& text);
// What a function of the device's table has answered.
int Answer(int code);

// torch_npu hands calls to a thread of its own (TASK_QUEUE_ENABLE), which takes no other call after
// one that has failed, and says so once alone. Of calls there an error is thus of their stream:
// whoever waits for it hears of it.
bool IsBehindQueue();
// An error of that text, after the work that is on the stream; kOk.
int FailLater(anyop_stream stream, const std::string& text);
// `code`, whose text Fail has kept, or behind the queue kOk and an error of the stream.
int FailLater(anyop_stream stream, int code);

// What this thread's program calls, as who knows has said; "this call" where nobody has.
std::string CurrentOperator();

int CurrentDevice();  // of this thread, -1: none yet
void SetCurrentDevice(int device);
// Null is the default stream of the current device.
anyop_stream StreamOf(void* stream);
// The number of the device that an address lies in, or ANYOP_AT_HOST.
int PlaceOf(const void* address);

}  // namespace npu
