// SPDX-License-Identifier: Apache-2.0
// Launches of host functions in packages: at once, or on a stream of a device.
#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "anyop/device.h"
#include "anyop_ascend/kernel_table.h"
#include "checked_block.h"
#include "findings.h"
#include "global.h"
#include "launches.h"
#include "lent.h"

namespace anyop_ascend {
namespace {

std::atomic<const anyop_device*> device{nullptr};
thread_local const HostLaunch* at_once = nullptr;  // the one that this thread runs without a stream

// Null, and why.
const anyop_device* DeviceOf(const char* library, std::string* why) {
  void* const loaded = dlopen(library, RTLD_NOW);
  if (!loaded) {
    *why = dlerror();
    return nullptr;
  }
  const auto find =
      reinterpret_cast<anyop_device_library_fn>(dlsym(loaded, "anyop_device_library"));
  const anyop_device* const found = find ? find()->device : nullptr;
  if (!found || find()->version != ANYOP_DEVICE_VERSION) {
    *why = std::string(library) + " is no library of a device";
  } else if (!found->submit) {
    *why = std::string(library) + ": its device does not run the host's code";
  } else {
    return found;
  }
  return nullptr;
}

// What a launch says of an address in it: how much of its allocation lies before and behind it.
struct Around {
  std::uint64_t at;  // in the packed bytes
  std::uint64_t before, bytes;
};
// A launch on a device that knows its allocations is carried in one block: this, an Around for each
// address, the packed bytes.
struct Carried {
  int (*run)(void* packed, char* message, std::uint64_t message_bytes);
  std::uint64_t n_around;

  const Around* around() const { return reinterpret_cast<const Around*>(this + 1); }
  unsigned char* packed() { return reinterpret_cast<unsigned char*>(this + 1) + PackedAt(); }
  std::size_t PackedAt() const { return n_around * sizeof(Around); }
};
thread_local Carried* carried_by_call = nullptr;  // while its kernel runs

int RunCarried(void* block, char* message, std::uint64_t message_bytes) {
  auto* const call = static_cast<Carried*>(block);
  carried_by_call = call;
  const int code = call->run(call->packed(), message, message_bytes);
  carried_by_call = nullptr;
  return code;
}

// Kernels may touch the allocations of their addresses, as the thread of the stream sees them.
void DeclareAllocations(Carried& call) {
  struct Memory {
    unsigned char* begin;
    std::uint64_t bytes;
    std::string name;
  };
  std::vector<Memory> all;
  for (std::uint64_t i = 0; i < call.n_around; ++i) {
    const Around& around = call.around()[i];
    if (!around.bytes) continue;
    unsigned char* address;
    std::memcpy(&address, call.packed() + around.at, sizeof address);
    unsigned char* const begin = address - around.before;
    bool is_known = false;
    for (Memory& known : all) {
      if (known.begin != begin) continue;
      known.name += Format(", %llu", static_cast<unsigned long long>(i + 1));
      is_known = true;
    }
    const std::string name = Format("pointer %llu", static_cast<unsigned long long>(i + 1));
    if (!is_known) all.push_back({begin, around.bytes, name});
  }
  for (const Memory& m : all) {
    DeclareExtent(m.begin, m.bytes, m.name.c_str(), ANYOP_ASCEND_READ | ANYOP_ASCEND_WRITE);
  }
}

// One launch of a checked kernel at a time, with findings of its own.
int RunDeclared(Carried& call, const LaunchOf& launch, char* message, std::uint64_t bytes) {
  anyop_ascend_begin();
  DeclareAllocations(call);
  LaunchChecked(launch);
  const char* const complaint = anyop_ascend_complaint();
  if (complaint) std::snprintf(message, bytes, "%s: %s", launch.name, complaint);
  anyop_ascend_end();
  return complaint ? ANYOP_NOT_AVAILABLE : 0;
}

[[noreturn]] void Throw(const char* kernel, const std::string& why) {
  throw std::runtime_error(std::string(kernel) + ": " + why);
}

void* AddressIn(const HostLaunch& launch, std::uint32_t i) {
  void* address;
  std::memcpy(&address, static_cast<char*>(launch.packed) + launch.addresses[i], sizeof address);
  return address;
}

bool KnowsAllocations(const anyop_device& of) {
  return of.size > offsetof(anyop_device, allocation) && of.allocation;
}

// False where the address lies in none.
bool FindAllocation(const anyop_device& of, const void* address, anyop_allocation* to) {
  *to = {.size = sizeof *to, .device = 0, .begin = nullptr, .bytes = 0};
  return address && of.allocation(address, to) == ANYOP_OK;
}

void Put(const anyop_device& to, const HostLaunch& launch, const anyop_launch& work) {
  if (to.submit(launch.stream, &work) != ANYOP_OK) Throw(launch.name, to.error_text());
}

void SubmitCarried(const anyop_device& to, const HostLaunch& launch) {
  const std::uint64_t n = launch.n_addresses;
  std::vector<std::uint64_t> block((sizeof(Carried) + n * sizeof(Around) + launch.bytes + 7) / 8);
  auto* const call = new (block.data()) Carried{launch.run, n};
  auto* const around = reinterpret_cast<Around*>(call + 1);
  const std::size_t packed_at = sizeof(Carried) + call->PackedAt();
  std::vector<std::uint32_t> addresses(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    addresses[i] = std::uint32_t(packed_at) + launch.addresses[i];
    around[i] = {launch.addresses[i], 0, 0};
    anyop_allocation found;
    const void* const address = AddressIn(launch, i);
    if (!FindAllocation(to, address, &found)) continue;
    around[i].before =
        std::uint64_t(static_cast<const char*>(address) - static_cast<const char*>(found.begin));
    around[i].bytes = found.bytes;
  }
  std::memcpy(call->packed(), launch.packed, launch.bytes);
  Put(to, launch,
      {.size = sizeof(anyop_launch),
       .n_addresses = launch.n_addresses,
       .name = launch.name,
       .task = &RunCarried,
       .block = block.data(),
       .block_bytes = packed_at + launch.bytes,
       .addresses = addresses.data()});
}

void Submit(const HostLaunch& launch) {
  const anyop_device* const to = device;
  if (!to) {
    Throw(launch.name,
          "it is launched on a stream, but no device has one in this process. Start the device, or "
          "launch on nullptr, which runs at once.");
  }
  if (KnowsAllocations(*to)) return SubmitCarried(*to, launch);
  Put(*to, launch,
      {.size = sizeof(anyop_launch),
       .n_addresses = launch.n_addresses,
       .name = launch.name,
       .task = launch.run,
       .block = launch.packed,
       .block_bytes = launch.bytes,
       .addresses = launch.addresses});
}

// The null stream is the default stream of the device that the first address lies on; null where
// all of them are the host's.
void* DefaultStreamOf(const HostLaunch& launch) {
  const anyop_device* const of = device;
  if (!of || !KnowsAllocations(*of)) return nullptr;
  for (std::uint32_t i = 0; i < launch.n_addresses; ++i) {
    anyop_allocation found;
    if (FindAllocation(*of, AddressIn(launch, i), &found)) return of->default_stream(found.device);
  }
  return nullptr;
}

}  // namespace

void LaunchFromHost(const HostLaunch& given) {
  HostLaunch launch = given;
  if (!launch.stream) launch.stream = DefaultStreamOf(launch);
  if (launch.stream) return Submit(launch);
  char message[1024] = "";
  at_once = &launch;
  const int failed = launch.run(launch.packed, message, sizeof message);
  at_once = nullptr;
  if (failed) throw std::runtime_error(message);
}

int RunFromHost(const LaunchOf& launch, char* message, std::uint64_t message_bytes) {
  bool is_complete = launch.blocks >= 1 && launch.blocks <= 65535;
  if (is_complete && launch.is_checked && carried_by_call) {
    return RunDeclared(*carried_by_call, launch, message, message_bytes);
  }
  std::optional<DeclaredLent> declared;
  if (launch.is_checked) {
    declared.emplace(at_once);
    ClearFindings();  // else the text would be that of the first call with an error at this place
  }
  const std::uint64_t before = ErrorsSoFar(nullptr);
  if (is_complete) {
    is_complete = launch.is_checked ? LaunchChecked(launch) : LaunchFast(launch);
  } else {
    Report("launch", Site("", 0), "%u blocks, but a launch has 1 to 65535", launch.blocks);
  }
  std::string last;
  if (ErrorsSoFar(&last) == before && is_complete) return 0;
  if (launch.is_checked) last = FirstErrorWithPlace();
  std::snprintf(message, message_bytes, "%s: %s.", launch.name, last.c_str());
  return ANYOP_NOT_AVAILABLE;  // RuntimeError, as for a launch that runs at once
}

int UseDevice(const char* library, std::string* why) {
  const anyop_device* const found = DeviceOf(library, why);
  if (found) device = found;
  return !found;
}

int Synchronize(void* stream, std::string* why) {
  const anyop_device* const of = device;
  if (!of || !stream) return 0;
  char message[1024] = "";
  if (of->synchronize(0, stream) != ANYOP_OK) *why = of->error_text();
  of->late_error(0, stream, 0, message, sizeof message);
  if (message[0]) *why = message;
  return !why->empty();
}

}  // namespace anyop_ascend
