// SPDX-License-Identifier: Apache-2.0
// Start, devices, contexts, errors, and what a device says of itself.
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

#include "acl.h"
#include "settings.h"

ACL const char* aclGetRecentErrMsg();

namespace npu {
namespace {

constexpr int kMostDevices = 16;
// Contexts are addresses in here: one for each device.
std::array<char, kMostDevices> g_contexts;

thread_local int t_device = -1;
thread_local char t_error[1024];
thread_local bool t_has_error = false;
const char* (*g_names)() = nullptr;

const virtual_device::Settings& Settings() { return virtual_device::TheSettings(); }

// The chip as torch_npu names it; it knows the names of what is sold.
const char* SocTitle() {
  const std::string name = virtual_device::Soc(TheAdditions()).name;
  if (name == "ascend910b") return "Ascend910B3";
  if (name == "ascend910_93") return "Ascend910_9391";
  if (name == "ascend950") return "Ascend950PR_957bx";
  return "Ascend310P3";
}

}  // namespace

int Fail(int code, const std::string& text) {
  std::snprintf(t_error, sizeof t_error, "virtual NPU: %s", text.c_str());
  t_has_error = true;
  return code;
}

int Answer(int code) {
  if (code == ANYOP_OK) return kOk;
  const int told = code == ANYOP_OUT_OF_MEMORY      ? kNoMemory
                   : code == ANYOP_INVALID_ARGUMENT ? kInvalid
                   : code == ANYOP_UNSUPPORTED      ? kUnsupported
                                                    : kInternal;
  return Fail(told, virtual_device::kTable.error_text());
}

bool IsBehindQueue() {
  std::array<char, 16> name{};  // as torch_npu calls it
  return pthread_getname_np(pthread_self(), name.data(), name.size()) == 0 &&
         std::string_view(name.data()) == "acl_thread";
}

int FailLater(anyop_stream stream, const std::string& text) {
  struct Block {
    std::string* text;
  } block{new std::string(text)};
  const auto fail = [](void* data, char* message, std::uint64_t message_bytes) -> int {
    const std::unique_ptr<std::string> why(static_cast<Block*>(data)->text);
    if (message) std::snprintf(message, message_bytes, "%s", why->c_str());
    return message ? ANYOP_INTERNAL : ANYOP_OK;
  };
  const anyop_launch launch = {.size = sizeof launch,
                               .n_addresses = 0,
                               .name = "a call that failed",
                               .task = fail,
                               .block = &block,
                               .block_bytes = sizeof block,
                               .addresses = nullptr};
  return Answer(virtual_device::kTable.submit(stream, &launch));
}

int FailLater(anyop_stream stream, int code) {
  if (code == kOk || !IsBehindQueue()) return code;
  const char* const text = aclGetRecentErrMsg();
  constexpr std::string_view kBegins = "virtual NPU: ";
  return FailLater(stream, std::string(text ? text : kBegins).substr(kBegins.size()));
}

std::string CurrentOperator() {
  const char* const name = g_names ? g_names() : nullptr;
  return name ? name : "this call";
}

int CurrentDevice() { return t_device; }
void SetCurrentDevice(int device) { t_device = device; }

anyop_stream StreamOf(void* stream) {
  if (stream) return stream;
  return virtual_device::kTable.default_stream(t_device < 0 ? 0 : t_device);
}

int PlaceOf(const void* address) {
  for (const auto* device : virtual_device::TheMachine().devices) {
    if (device->memory.OffsetSeen(address) >= 0) return device->number;
  }
  return ANYOP_AT_HOST;
}

}  // namespace npu

using namespace npu;

// ---- Start and end.

ACL int aclInit(const char*) {
  static std::atomic<bool> is_started{false};
  if (!Settings().why_none.empty()) return Fail(kInvalid, Settings().why_none);
  return is_started.exchange(true) ? kRepeatedStart : kOk;
}
ACL int aclFinalize() { return kOk; }

// Who knows the name of the operator that the calling thread is in.
ACL void anyop_npu_set_names(const char* (*names)()) { g_names = names; }

// ---- Devices and contexts.

ACL int aclrtGetDeviceCount(std::uint32_t* count) {
  *count = std::uint32_t(virtual_device::kTable.count());
  return *count ? kOk : Fail(kInvalid, Settings().why_none);
}
ACL int aclrtSetDevice(std::int32_t device) {
  if (device >= 0 && device < Settings().devices) {
    SetCurrentDevice(device);
    return kOk;
  }
  return Fail(kInvalid, "aclrtSetDevice: there is no device " + std::to_string(device) + ", but " +
                            std::to_string(Settings().devices) + " of them, from 0.");
}
ACL int aclrtGetDevice(std::int32_t* device) {
  if (CurrentDevice() < 0) return kNoDevice;
  *device = CurrentDevice();
  return kOk;
}
ACL int aclrtResetDevice(std::int32_t) { return kOk; }
ACL int aclrtResetDeviceForce(std::int32_t) { return kOk; }
ACL int aclrtGetCurrentContext(void** context) {
  if (CurrentDevice() < 0) return kNoDevice;
  *context = &g_contexts[std::size_t(CurrentDevice())];
  return kOk;
}
ACL int aclrtSetCurrentContext(void* context) {
  const std::ptrdiff_t device = static_cast<char*>(context) - g_contexts.data();
  if (device < 0 || device >= kMostDevices) {
    return Fail(kInvalid, "aclrtSetCurrentContext: the context is none of a virtual NPU.");
  }
  return aclrtSetDevice(std::int32_t(device));
}
ACL int aclrtGetPrimaryCtxState(std::int32_t device, std::uint32_t* flags,
                                std::int32_t* is_active) {
  if (flags) *flags = 0;
  if (is_active) *is_active = CurrentDevice() == device;
  return kOk;
}
// A forked child has nothing on the device: whatever it wanted to put there was refused, once.
// torch_npu waits here at the end of each process, and would print the refusal again.
ACL int aclrtSynchronizeDevice() {
  if (virtual_device::IsForked()) return kOk;
  const int device = CurrentDevice();
  if (device < 0) return kNoDevice;
  const anyop_device& table = virtual_device::kTable;
  if (const int code = Answer(table.synchronize(device, nullptr))) return code;
  return Answer(table.late_error(device, nullptr, 1, nullptr, 0));
}
ACL int aclrtSynchronizeDeviceWithTimeout(std::int32_t) { return aclrtSynchronizeDevice(); }

// Peers: every virtual device sees every other.
ACL int aclrtDeviceCanAccessPeer(std::int32_t* can, std::int32_t, std::int32_t) {
  *can = 1;
  return kOk;
}
ACL int aclrtDeviceEnablePeerAccess(std::int32_t, std::uint32_t) { return kOk; }
ACL int aclrtDeviceGetBareTgid(std::int32_t* id) {
  *id = getpid();
  return kOk;
}

// ---- Properties. Numbers of what is asked for are those that Ascend documents; what is unknown is
// 0.

namespace {

constexpr std::uint32_t kAiCores = 101, kVectorCores = 201;
enum Capability { kAiCoresCapability, kVectorCoresCapability, kCacheCapability };

// Bytes of the second cache.
std::int64_t CacheBytes(std::string_view chip) {
  if (chip == "ascend910b" || chip == "ascend910_93") return std::int64_t{192} << 20;
  return chip == "ascend950" ? std::int64_t{112} << 20 : 0;
}

}  // namespace

ACL const char* aclrtGetSocName() { return SocTitle(); }
ACL int aclrtGetDeviceInfo(std::uint32_t, std::uint32_t what, std::int64_t* value) {
  const anyop_ascend::NamedSoc chip = virtual_device::Soc(TheAdditions());
  *value = what == kVectorCores ? chip.vector_cores : what == kAiCores ? chip.cube_cores : 0;
  return kOk;
}
ACL int aclGetDeviceCapability(std::uint32_t, int what, std::int64_t* value) {
  const anyop_ascend::NamedSoc chip = virtual_device::Soc(TheAdditions());
  *value = what == kAiCoresCapability       ? chip.cube_cores
           : what == kVectorCoresCapability ? chip.vector_cores
           : what == kCacheCapability       ? CacheBytes(chip.name)
                                            : 0;
  return kOk;
}
ACL int aclGetCannAttribute(int, std::int32_t* value) {
  *value = 1;
  return kOk;
}
ACL int aclrtGetVersion(std::int32_t* major, std::int32_t* minor, std::int32_t* patch) {
  *major = 1, *minor = 13, *patch = 0;
  return kOk;
}

// ---- Errors. Asking for the text takes it away.

ACL const char* aclGetRecentErrMsg() {
  if (!t_has_error) return nullptr;
  t_has_error = false;
  return t_error;
}
ACL int aclrtGetLastError(int) { return kOk; }
ACL int aclrtPeekAtLastError(int) { return kOk; }
