// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/device.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "platform/error.h"

namespace anyop {
namespace {

struct DeviceTable {
  std::shared_mutex mutex;
  std::vector<const DeviceKind*> kinds;
};
// Never destroyed: work and memory of devices may outlive static objects.
DeviceTable& TheDevices() {
  static auto* table = new DeviceTable;
  return *table;
}

template <class F>
const DeviceKind* FindKind(F&& is_it) {
  DeviceTable& all = TheDevices();
  const std::shared_lock lock(all.mutex);
  const auto found = std::find_if(all.kinds.begin(), all.kinds.end(), is_it);
  return found == all.kinds.end() ? nullptr : *found;  // without the lock: none is ever removed
}

}  // namespace

std::vector<std::string> SplitList(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string_view word = text.substr(begin, end - begin);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    words.emplace_back(word);
    begin = end + 1;
  }
  return words;
}

std::string_view DeviceWordOf(std::string_view kernel) {
  return kernel.substr(0, kernel.find('_'));
}

bool DeviceKind::Runs(std::string_view kernel_word) const {
  return std::find(runs.begin(), runs.end(), kernel_word) != runs.end();
}

int DeviceKind::Count() const {
  const int count = table.count();
  if (count >= 0) return count;
  Fail(ANYOP_NOT_AVAILABLE, file + ": count() of its device '" + word + "' gives " +
                                std::to_string(count) +
                                ", but must give how many there are. Try 0 where there are none, "
                                "and let error_text() say why.");
}

void DeviceKind::CheckNumber(int number) const {
  const int count = Count();
  if (number >= 0 && number < count) return;
  // error_text is of the last function that failed: only where there are none that is count.
  const char* why = count == 0 ? table.error_text() : "";
  Fail(ANYOP_NOT_AVAILABLE, "there is no device '" + NameOf(number) + "': this machine has " +
                                std::to_string(count) + " of them" +
                                (why && *why ? std::string(": ") + why : "."));
}

std::vector<std::string> DeviceKind::Features(int number) const {
  anyop_device_properties p{};
  p.size = sizeof p;
  Check(table.properties(number, &p), number);
  return SplitList(p.features ? p.features : "");
}

void DeviceKind::FailWith(int code, int number) const {
  const char* text = table.error_text();
  // The library gives any number; hosts know the codes of abi.h alone.
  if (code < ANYOP_INVALID_ARGUMENT || code > ANYOP_INTERNAL) code = ANYOP_INTERNAL;
  Fail(code,
       NameOf(number) + ": " + (text && *text ? text : "the device's library gives no reason."));
}

const DeviceKind* FindDeviceKind(int dlpack_type) {
  return FindKind([&](const DeviceKind* k) { return k->table.dlpack_type == dlpack_type; });
}

const DeviceKind* FindDeviceKind(std::string_view word) {
  return FindKind([&](const DeviceKind* k) { return k->word == word; });
}

const DeviceKind& DeviceKindOf(DLDevice device) {
  if (const DeviceKind* kind = FindDeviceKind(device.device_type)) return *kind;
  Fail(ANYOP_NOT_AVAILABLE, Device(device).name() +
                                ": no loaded library has this device. Try anyop.load of the "
                                "device's library.");
}

const DeviceKind& CheckedKindOf(DLDevice device) {
  const DeviceKind& kind = DeviceKindOf(device);
  kind.CheckNumber(device.device_id);
  return kind;
}

std::vector<const DeviceKind*> DeviceKinds() {
  DeviceTable& all = TheDevices();
  const std::shared_lock lock(all.mutex);
  return all.kinds;
}

void RegisterDevice(std::unique_ptr<DeviceKind> made) {
  DeviceTable& all = TheDevices();
  const std::unique_lock lock(all.mutex);
  for (const DeviceKind* known : all.kinds) {
    const bool is_word = known->word == made->word;
    if (!is_word && known->table.dlpack_type != made->table.dlpack_type) continue;
    // A loaded library has its functions at one address. A file that was built again has others.
    if (is_word && known->table.count == made->table.count) return;
    if (is_word && known->file == made->file) {
      Fail(
          ANYOP_INVALID_ARGUMENT,
          made->file + ": was built again, but its device '" + made->word +
              "' stays as it was loaded, because memory and streams of it may be in use. Try a new "
              "process. Kernels in a library of their own, whose `device` is NULL, can be "
              "replaced.");
    }
    Fail(
        ANYOP_INVALID_ARGUMENT,
        made->file + ": its device '" + made->word + "' has " +
            (is_word ? "the name"
                     : "tensors of DLPack type " + std::to_string(known->table.dlpack_type) + ",") +
            " that '" + known->word + "' of " + known->file +
            " has already. A process has one of them. Try a process of its own.");
  }
  all.kinds.push_back(made.get());  // may throw, while `made` still owns the kind
  static_cast<void>(made.release());
}

constinit thread_local const DeviceHost* device_host = nullptr;

DeviceMemory::DeviceMemory(const DeviceKind& kind, int number, std::uint64_t bytes)
    : kind_(&kind), number_(number), host_(HostOf(kind, number)) {
  if (host_) {
    data_ = host_->allocate({kind.table.dlpack_type, number}, bytes, &owner_);
    return;
  }
  stream_ = CurrentStream(kind, number);
  int code = kind.table.allocate(number, stream_, bytes, &data_);
  // Memory that was released in the order of a stream is free only when its work is over.
  if (code == ANYOP_OUT_OF_MEMORY) {
    kind.table.synchronize(number, nullptr);
    code = kind.table.allocate(number, stream_, bytes, &data_);
  }
  kind.Check(code, number);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : kind_(other.kind_),
      number_(other.number_),
      stream_(other.stream_),
      host_(other.host_),
      data_(std::exchange(other.data_, nullptr)),
      owner_(std::exchange(other.owner_, nullptr)) {}

DeviceMemory::~DeviceMemory() {
  if (owner_) {
    host_->release(owner_);
  } else if (data_ && !host_) {
    kind_->table.release(number_, stream_, data_);
  }
}

void RaiseLate(const DeviceKind& kind, int number, anyop_stream stream, bool all_streams) {
  char text[1024];
  text[0] = 0;
  int code = kind.table.late_error(number, stream, all_streams, text, sizeof text);
  if (!code) [[likely]]
    return;
  // late_error has failed itself: then it writes no message (anyop/device.h).
  if (!text[0]) kind.FailWith(code, number);
  if (code < ANYOP_INVALID_ARGUMENT || code > ANYOP_INTERNAL) code = ANYOP_INTERNAL;
  Fail(code, std::string(text) + " This is of earlier work on " + kind.NameOf(number) +
                 ", whose results are not to be used.");
}

}  // namespace anyop
