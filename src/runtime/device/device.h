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
  // How many there are. Throws NotAvailable: the library gives a number below 0.
  int Count() const;
  // Throws NotAvailable where there is no device of this number: a tensor says any.
  void CheckNumber(int number) const;
  // The words of features of device `number`.
  std::vector<std::string> Features(int number) const;
  // Throws what a function of the table says: "cuda:0: <text>".
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
// The same, and whether there is a device of this number, which a program may have made up.
const DeviceKind& CheckedKindOf(DLDevice device);
std::vector<const DeviceKind*> DeviceKinds();

// Adds a library's device (ReadDeviceLibrary). The same library again does nothing. Throws
// InvalidArgument, with nothing done: its word or the type of its tensors is another library's.
void RegisterDevice(std::unique_ptr<DeviceKind> made);

// Words between commas, without blanks around them.
std::vector<std::string> SplitList(std::string_view text);

// What a framework that owns a device supplies, so that there is one pool of memory and one order
// of work. Set around its calls.
struct DeviceHost {
  // The framework's current stream of this thread.
  anyop_stream (*stream)(DLDevice device);
  // Memory in the order of the current stream, and what `release` is given for it. Throws Error.
  void* (*allocate)(DLDevice device, std::uint64_t bytes, void** owner);
  void (*release)(void* owner);
};
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
// The framework, unless a StreamScope inside of its call has taken over: the call of another host
// that a kernel makes, for instance. Null: nobody owns the device here.
const DeviceHost* HostOf(const DeviceKind& kind, int number);

// The stream that calls of this thread go to: the framework's, that of a StreamScope, or the
// device's own.
anyop_stream CurrentStream(const DeviceKind& kind, int number);
// The same, kept alive where it is ours.
std::shared_ptr<StreamState> HoldCurrentStream(const DeviceKind& kind, int number);

// A device's memory for work that is put on the current stream while this lives.
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

// Throws the oldest error of work that was put on the stream earlier; on all of the device's
// streams with `all_streams`.
void RaiseLate(const DeviceKind& kind, int number, anyop_stream stream, bool all_streams = false);

}  // namespace anyop
