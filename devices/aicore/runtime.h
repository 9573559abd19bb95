// SPDX-License-Identifier: Apache-2.0
// The vendor's runtime, libascendcl.so, opened when it is first needed: nothing of it is linked, so
// that this library loads where there is no chip. Names, parameters and values are those of
// Ascend's public documentation (AscendCL, runtime management); no header of CANN is in here or was
// read.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace aicore {

using Code = int;  // aclError
using Stream = void*;
using Event = void*;

inline constexpr Code kOk = 0, kRepeatedStart = 100002;
// aclrtMemcpyKind, aclrtMemMallocPolicy, aclrtMemAttr, aclrtDevAttr.
inline constexpr int kToDevice = 1, kToHost = 2, kOnDevice = 3;
inline constexpr int kHugeFirst = 0, kHbm = 1, kVectorCores = 201;
inline constexpr int kComplete = 1;  // aclrtEventRecordedStatus

struct Runtime {
  Code (*aclInit)(const char* configuration);
  const char* (*aclGetRecentErrMsg)();
  Code (*aclrtGetDeviceCount)(std::uint32_t* count);
  Code (*aclrtSetDevice)(std::int32_t device);
  const char* (*aclrtGetSocName)();
  Code (*aclrtGetDeviceInfo)(std::uint32_t device, int attribute, std::int64_t* value);
  Code (*aclrtGetMemInfo)(int attribute, std::size_t* free, std::size_t* total);
  Code (*aclrtMalloc)(void** memory, std::size_t bytes, int policy);
  Code (*aclrtFree)(void* memory);
  Code (*aclrtMemcpyAsync)(void* to, std::size_t room, const void* from, std::size_t bytes,
                           int kind, Stream stream);
  Code (*aclrtCreateStream)(Stream* stream);
  Code (*aclrtDestroyStream)(Stream stream);
  Code (*aclrtSynchronizeStream)(Stream stream);
  Code (*aclrtSynchronizeDevice)();
  Code (*aclrtCreateEvent)(Event* event);
  Code (*aclrtDestroyEvent)(Event event);
  Code (*aclrtRecordEvent)(Event event, Stream stream);
  Code (*aclrtStreamWaitEvent)(Stream stream, Event event);
  Code (*aclrtQueryEventStatus)(Event event, int* status);
  Code (*aclrtSynchronizeEvent)(Event event);
  Code (*aclrtEventElapsedTime)(float* milliseconds, Event from, Event to);
};

struct Failure {
  int code;  // of abi.h
  std::string text;
};

// Throws Failure where there is no runtime, or one that lacks a function.
const Runtime& TheRuntime();

}  // namespace aicore
