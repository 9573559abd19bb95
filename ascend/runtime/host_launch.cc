// SPDX-License-Identifier: Apache-2.0
// Launches of host functions in packages: at once, or on a stream of a device.
#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>

#include "anyop/device.h"
#include "anyop_ascend/kernel_table.h"
#include "checked_block.h"
#include "findings.h"
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

[[noreturn]] void Throw(const char* kernel, const std::string& why) {
  throw std::runtime_error(std::string(kernel) + ": " + why);
}

void Submit(const HostLaunch& launch) {
  const anyop_device* const to = device;
  if (!to) {
    Throw(launch.name,
          "it is launched on a stream, but no device has one in this process. Start the device, or "
          "launch on nullptr, which runs at once.");
  }
  const anyop_launch work = {.size = sizeof work,
                             .n_addresses = launch.n_addresses,
                             .name = launch.name,
                             .task = launch.run,
                             .block = launch.packed,
                             .block_bytes = launch.bytes,
                             .addresses = launch.addresses};
  if (to->submit(launch.stream, &work) != ANYOP_OK) Throw(launch.name, to->error_text());
}

}  // namespace

void LaunchFromHost(const HostLaunch& launch) {
  if (launch.stream) return Submit(launch);
  char message[1024] = "";
  at_once = &launch;
  const int failed = launch.run(launch.packed, message, sizeof message);
  at_once = nullptr;
  if (failed) throw std::runtime_error(message);
}

int RunFromHost(const LaunchOf& launch, char* message, std::uint64_t message_bytes) {
  std::optional<DeclaredLent> declared;
  if (launch.is_checked) {
    declared.emplace(at_once);
    ClearFindings();  // else the text would be that of the first call with an error at this place
  }
  const std::uint64_t before = ErrorsSoFar(nullptr);
  bool is_complete = launch.blocks >= 1 && launch.blocks <= 65535;
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
