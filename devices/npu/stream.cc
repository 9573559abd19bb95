// SPDX-License-Identifier: Apache-2.0
// Streams, events, and functions of the host that run in the order of a stream.
#include "acl.h"

using namespace npu;
using virtual_device::kTable;

namespace {

int DeviceOf(anyop_stream handle) {
  const virtual_device::Stream* stream = virtual_device::TheMachine().streams.Find(handle);
  return stream ? stream->device : 0;
}

int Synchronize(void* given) {
  const anyop_stream stream = StreamOf(given);
  const int device = DeviceOf(stream);
  if (const int code = Answer(kTable.synchronize(device, stream))) return code;
  return Answer(kTable.late_error(device, stream, 0, nullptr, 0));
}

int Run(const char* who, void* given, void (*function)(void*), void* data) {
  virtual_device::Stream* stream = virtual_device::TheMachine().streams.Find(StreamOf(given));
  if (!stream) return Fail(kInvalid, std::string(who) + ": the stream is none of a virtual NPU.");
  stream->Push([=] { function(data); });
  return kOk;
}

}  // namespace

// ---- Streams.

ACL int aclrtCreateStream(void** stream) {
  if (CurrentDevice() < 0) return kNoDevice;
  return Answer(kTable.create_stream(CurrentDevice(), stream));
}
ACL int aclrtCreateStreamWithConfig(void** stream, std::uint32_t, std::uint32_t) {
  return aclrtCreateStream(stream);
}
ACL int aclrtDestroyStream(void* stream) { return Answer(kTable.destroy_stream(stream)); }
ACL int aclrtDestroyStreamForce(void* stream) { return aclrtDestroyStream(stream); }
ACL int aclrtSynchronizeStream(void* stream) { return Synchronize(stream); }
ACL int aclrtSynchronizeStreamWithTimeout(void* stream, std::int32_t) {
  return Synchronize(stream);
}
// 0: its work is over; 1: it is not.
ACL int aclrtStreamQuery(void* given, int* status) {
  virtual_device::Stream* stream = virtual_device::TheMachine().streams.Find(StreamOf(given));
  if (!stream) return Fail(kInvalid, "aclrtStreamQuery: the stream is none of a virtual NPU.");
  *status = stream->IsIdle() ? 0 : 1;
  return kOk;
}
ACL int aclrtStreamGetId(void* stream, std::int32_t* id) {
  *id = std::int32_t(reinterpret_cast<std::uintptr_t>(StreamOf(stream)));
  return kOk;
}
ACL int aclrtSetStreamFailureMode(void*, std::uint64_t) { return kOk; }
ACL int aclrtSetStreamOverflowSwitch(void*, std::uint32_t) { return kOk; }
ACL int aclrtGetStreamOverflowSwitch(void*, std::uint32_t* flag) {
  *flag = 0;
  return kOk;
}
ACL int aclrtUseStreamResInCurrentThread(void*) { return kOk; }
ACL int aclrtUnuseStreamResInCurrentThread(void*) { return kOk; }

// ---- Events.

ACL int aclrtCreateEvent(void** event) {
  if (CurrentDevice() < 0) return kNoDevice;
  return Answer(kTable.create_event(CurrentDevice(), event));
}
ACL int aclrtCreateEventWithFlag(void** event, std::uint32_t) { return aclrtCreateEvent(event); }
ACL int aclrtCreateEventExWithFlag(void** event, std::uint32_t) { return aclrtCreateEvent(event); }
ACL int aclrtDestroyEvent(void* event) { return Answer(kTable.destroy_event(event)); }
ACL int aclrtRecordEvent(void* event, void* stream) {
  return Answer(kTable.record_event(event, StreamOf(stream)));
}
ACL int aclrtResetEvent(void*, void*) { return kOk; }
ACL int aclrtStreamWaitEvent(void* stream, void* event) {
  return Answer(kTable.wait_event(event, StreamOf(stream)));
}
ACL int aclrtSynchronizeEvent(void* event) { return Answer(kTable.synchronize_event(event)); }
ACL int aclrtSynchronizeEventWithTimeout(void* event, std::int32_t) {
  return aclrtSynchronizeEvent(event);
}
// 1: it was reached; 0: not yet. Of waits it is the other way.
ACL int aclrtQueryEventStatus(void* event, int* status) {
  std::int32_t is_complete = 0;
  const int code = Answer(kTable.query_event(event, &is_complete));
  *status = is_complete;
  return code;
}
ACL int aclrtQueryEventWaitStatus(void* event, int* status) {
  const int code = aclrtQueryEventStatus(event, status);
  *status = *status ? 0 : 1;
  return code;
}
ACL int aclrtEventElapsedTime(float* milliseconds, void* from, void* to) {
  double elapsed = 0;
  const int code = Answer(kTable.elapsed(from, to, &elapsed));
  *milliseconds = float(elapsed);
  return code;
}
ACL int aclrtEventGetTimestamp(void* handle, std::uint64_t* microseconds) {
  const auto event = virtual_device::TheMachine().events.Find(handle);
  const auto when = event ? event->When() : std::nullopt;
  if (!when) return Fail(kInvalid, "aclrtEventGetTimestamp: the event was not reached.");
  using Micro = std::chrono::microseconds;
  *microseconds =
      std::uint64_t(std::chrono::duration_cast<Micro>(when->time_since_epoch()).count());
  return kOk;
}

// ---- Functions of the host.

ACL int aclrtLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  return Run("aclrtLaunchHostFunc", stream, function, data);
}
ACL int aclrtLaunchCallback(void (*function)(void*), void* data, int, void* stream) {
  return Run("aclrtLaunchCallback", stream, function, data);
}
ACL int aclrtSubscribeReport(std::uint64_t, void*) { return kOk; }
ACL int aclrtUnSubscribeReport(std::uint64_t, void*) { return kOk; }
ACL int aclrtProcessReport(std::int32_t) { return kOk; }
