// SPDX-License-Identifier: Apache-2.0
// Memory of the device and pinned memory of the host; copies and fills.
#include <cstdlib>
#include <map>
#include <mutex>

#include "acl.h"

namespace npu {
namespace {

constexpr std::size_t kPinnedAlignment = 64;
enum CopyKind { kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice };

std::mutex g_mutex;
std::map<const char*, std::size_t> g_pinned;

bool IsPinned(const void* address) {
  const auto* at = static_cast<const char*>(address);
  const std::lock_guard lock(g_mutex);
  auto behind = g_pinned.upper_bound(at);
  if (behind == g_pinned.begin()) return false;
  --behind;
  return at < behind->first + behind->second;
}

const char* Name(int place) { return place == ANYOP_AT_HOST ? "the host's" : "a device's"; }

int CheckRoom(const char* who, std::size_t room, std::size_t bytes) {
  if (bytes <= room) return kOk;
  return Fail(kInvalid, std::string(who) + ": " + std::to_string(bytes) +
                            " bytes are to be written where there is room for " +
                            std::to_string(room) + ".");
}

// The kind says on which side each address lies: that of the other side is a mistake.
int CheckKind(const char* who, int to, int from, int kind) {
  const bool to_device = to != ANYOP_AT_HOST, from_device = from != ANYOP_AT_HOST;
  const int is = to_device ? (from_device ? kDeviceToDevice : kHostToDevice)
                           : (from_device ? kDeviceToHost : kHostToHost);
  if (kind == is || kind > kDeviceToDevice) return kOk;
  return Fail(kInvalid, std::string(who) + ": copies of kind " + std::to_string(kind) +
                            " are of other memory, but this one is from " + Name(from) + " to " +
                            Name(to) + ".");
}

int Copy(const char* who, void* to, std::size_t room, const void* from, std::size_t bytes, int kind,
         anyop_stream stream) {
  const int to_place = PlaceOf(to), from_place = PlaceOf(from);
  int code = CheckRoom(who, room, bytes);
  if (!code) code = CheckKind(who, to_place, from_place, kind);
  if (!code)
    code = Answer(virtual_device::kTable.copy(stream, to_place, to, from_place, from, bytes));
  return FailLater(stream, code);
}

int Fill(const char* who, void* to, std::size_t room, std::int32_t value, std::size_t bytes,
         anyop_stream stream) {
  const char item = char(value);
  int code = CheckRoom(who, room, bytes);
  if (!code) code = Answer(virtual_device::kTable.fill(stream, to, bytes, &item, 1));
  return FailLater(stream, code);
}

int Wait(anyop_stream stream, int begun) {
  if (begun != kOk) return begun;
  const int device = CurrentDevice() < 0 ? 0 : CurrentDevice();
  return Answer(virtual_device::kTable.synchronize(device, stream));
}

}  // namespace
}  // namespace npu

using namespace npu;

// ---- The device's. It is there when the call has returned, and gone likewise.

ACL int aclrtMalloc(void** memory, std::size_t bytes, int) {
  if (CurrentDevice() < 0) return kNoDevice;
  if (virtual_device::IsForked()) return Answer(virtual_device::kTable.synchronize(0, nullptr));
  auto& device = *virtual_device::TheMachine().devices[std::size_t(CurrentDevice())];
  std::string why;
  *memory = device.memory.Reserve(bytes, &why);
  if (!*memory) return Fail(kNoMemory, why);
  device.memory.Open(*memory);
  return kOk;
}
ACL int aclrtMallocAlign32(void** memory, std::size_t bytes, int policy) {
  return aclrtMalloc(memory, bytes, policy);
}
ACL int aclrtMallocCached(void** memory, std::size_t bytes, int policy) {
  return aclrtMalloc(memory, bytes, policy);
}
ACL int aclrtFree(void* memory) {
  if (!memory || virtual_device::IsForked()) return kOk;
  const int place = PlaceOf(memory);
  if (place == ANYOP_AT_HOST) return Fail(kInvalid, "aclrtFree: the memory is the host's.");
  auto& device = *virtual_device::TheMachine().devices[std::size_t(place)];
  std::string why;
  if (!device.memory.Release(memory, &why)) return Fail(kInvalid, "aclrtFree: " + why);
  device.memory.Close(memory);
  return kOk;
}
ACL int aclrtGetMemInfo(int, std::size_t* free, std::size_t* total) {
  anyop_device_properties properties = {};
  properties.size = sizeof properties;
  const int device = CurrentDevice() < 0 ? 0 : CurrentDevice();
  if (const int code = Answer(virtual_device::kTable.properties(device, &properties))) return code;
  *free = properties.free_bytes, *total = properties.total_bytes;
  return kOk;
}

// ---- The host's.

ACL int aclrtMallocHost(void** memory, std::size_t bytes) {
  *memory = std::aligned_alloc(kPinnedAlignment, (bytes / kPinnedAlignment + 1) * kPinnedAlignment);
  if (!*memory) return Fail(kNoMemory, "aclrtMallocHost: the host has no memory left.");
  const std::lock_guard lock(g_mutex);
  g_pinned[static_cast<char*>(*memory)] = bytes + 1;  // an empty one is pinned too
  return kOk;
}
ACL int aclrtMallocHostWithCfg(void** memory, std::uint64_t bytes, void*) {
  return aclrtMallocHost(memory, bytes);
}
ACL int aclrtFreeHost(void* memory) {
  {
    const std::lock_guard lock(g_mutex);
    if (!g_pinned.erase(static_cast<char*>(memory))) {
      return Fail(kInvalid, "aclrtFreeHost: the memory is not what aclrtMallocHost gave.");
    }
  }
  std::free(memory);
  return kOk;
}
ACL int aclrtHostRegister(void* memory, std::uint64_t bytes, int, void** seen_by_device) {
  if (seen_by_device) *seen_by_device = memory;
  const std::lock_guard lock(g_mutex);
  g_pinned[static_cast<char*>(memory)] = bytes;
  return kOk;
}
ACL int aclrtHostUnregister(void* memory) {
  const std::lock_guard lock(g_mutex);
  g_pinned.erase(static_cast<char*>(memory));
  return kOk;
}

// Two places follow one another, each the number of a device and a type; the host's pinned memory
// is of type 0, a device's of 1, all other of 2.
ACL int aclrtPointerGetAttributes(const void* address, std::int32_t* attributes) {
  const int place = PlaceOf(address);
  attributes[0] = place == ANYOP_AT_HOST ? 0 : place;
  attributes[1] = place != ANYOP_AT_HOST ? 1 : IsPinned(address) ? 0 : 2;
  attributes[2] = 0;
  return kOk;
}

// ---- Copies and fills.

ACL int aclrtMemcpyAsync(void* to, std::size_t room, const void* from, std::size_t bytes, int kind,
                         void* stream) {
  return Copy("aclrtMemcpyAsync", to, room, from, bytes, kind, StreamOf(stream));
}
ACL int aclrtMemcpyAsyncWithCondition(void* to, std::size_t room, const void* from,
                                      std::size_t bytes, int kind, void* stream) {
  return Copy("aclrtMemcpyAsyncWithCondition", to, room, from, bytes, kind, StreamOf(stream));
}
ACL int aclrtMemcpy(void* to, std::size_t room, const void* from, std::size_t bytes, int kind) {
  const anyop_stream stream = StreamOf(nullptr);
  return Wait(stream, Copy("aclrtMemcpy", to, room, from, bytes, kind, stream));
}
ACL int aclrtMemsetAsync(void* to, std::size_t room, std::int32_t value, std::size_t bytes,
                         void* stream) {
  return Fill("aclrtMemsetAsync", to, room, value, bytes, StreamOf(stream));
}
ACL int aclrtMemset(void* to, std::size_t room, std::int32_t value, std::size_t bytes) {
  const anyop_stream stream = StreamOf(nullptr);
  return Wait(stream, Fill("aclrtMemset", to, room, value, bytes, stream));
}
