// SPDX-License-Identifier: Apache-2.0
// The devices that libraries have brought, their streams as this thread sees them, and their memory
// in the order of a stream. The host itself is none of them.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "anyop/device.h"
#include "anyop/stream.h"

namespace anyop {

// Devices of one library, "cuda:0" and "cuda:1". Never destroyed.
struct DeviceKind {
  anyop_device table{};           // fields that an older library lacks are zero
  std::string word;               // "cuda"
  std::string file;               // the library
  std::vector<std::string> runs;  // words of kernels: its own, then others

  bool Runs(std::string_view kernel_word) const;
  std::string NameOf(int number) const { return word + ":" + std::to_string(number); }
  // How many devices of the kind there are. Throws NotAvailable if the library says less than 0.
  int Count() const;
  // Throws NotAvailable where there is no device of this number. A tensor can carry any number, and
  // the library is never given one that it does not have.
  void CheckNumber(int number) const;
  // The words of features of device `number`.
  std::vector<std::string> Features(int number) const;
  // Throws the error that a function of the table has returned: "cuda:0: <text>".
  void Check(int code, int number) const {
    if (code) [[unlikely]]
      FailWith(code, number);
  }
  [[noreturn]] void FailWith(int code, int number) const;
};

// What a kernel's name begins with, up to the first "_": "cpu", "cuda".
std::string_view DeviceWordOf(std::string_view kernel);

// Null for the host, and where no library has brought the device.
const DeviceKind* FindDeviceKind(int dlpack_type);
const DeviceKind* FindDeviceKind(std::string_view word);
// Throws NotAvailable.
const DeviceKind& DeviceKindOf(DLDevice device);
// The same. Throws, too, if there is no device of this number: programs can make one up.
const DeviceKind& CheckedKindOf(DLDevice device);
std::vector<const DeviceKind*> DeviceKinds();

// Adds a library's device (ReadDeviceLibrary). The same library again does nothing. Throws
// InvalidArgument, with nothing done: its word or the type of its tensors is another library's.
void RegisterDevice(std::unique_ptr<DeviceKind> made);

// Words between commas, without blanks around them.
std::vector<std::string> SplitList(std::string_view text);

// What a framework that owns a device supplies, so that there is one pool of memory and one order
// of work. CallingDeviceHost sets it around the framework's calls.
struct DeviceHost {
  // The framework's current stream of this thread.
  anyop_stream (*stream)(DLDevice device);
  // Memory in the order of the current stream, and what `release` is given for it. Throws Error.
  void* (*allocate)(DLDevice device, std::uint64_t bytes, void** owner);
  void (*release)(void* owner);
};
// One word of static TLS: read without a call, also in a loaded library.
extern constinit thread_local const DeviceHost* device_host [[gnu::tls_model("initial-exec")]];

class CallingDeviceHost {
 public:
  explicit CallingDeviceHost(const DeviceHost* host);
  ~CallingDeviceHost();
  CallingDeviceHost(const CallingDeviceHost&) = delete;
  CallingDeviceHost& operator=(const CallingDeviceHost&) = delete;

 private:
  const DeviceHost* outer_;
  const std::size_t outer_scopes_;
};
// The framework whose call this is. Null where there is none, and where a StreamScope was opened
// inside of that call: what is called there, by another host for instance, goes to the scope's
// stream.
const DeviceHost* HostOf(const DeviceKind& kind, int number);

// The stream that calls of this thread go to: the framework's, that of a StreamScope, or the
// device's own.
anyop_stream CurrentStream(const DeviceKind& kind, int number);
// The same stream. One that a Stream object made stays alive for as long as it is held.
std::shared_ptr<StreamState> HoldCurrentStream(const DeviceKind& kind, int number);

// A device's memory for work that is put on the current stream while this lives. It is given back
// in the order of that stream, so that the work put there may end later.
class DeviceMemory {
 public:
  DeviceMemory(const DeviceKind& kind, int number, std::uint64_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  void* data() const { return data_; }

 private:
  const DeviceKind* kind_;
  int number_;
  anyop_stream stream_ = nullptr;
  const DeviceHost* host_;
  void* data_ = nullptr;
  void* owner_ = nullptr;
};

// Throws the oldest error of work that was put on the stream earlier, with `all_streams` on any
// stream of the device. The error is told once.
void RaiseLate(const DeviceKind& kind, int number, anyop_stream stream, bool all_streams = false);

}  // namespace anyop
