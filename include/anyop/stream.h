// SPDX-License-Identifier: Apache-2.0
// Devices, and the order of work on them. A call with tensors of a device returns when its work is
// on the current stream of that device, not when it is done:
//
//   Load("anyop_cuda.so");
//   Array x = host.On(Device("cuda")), y = Call("add", x, x);   // y is not computed yet
//   Array result = y.On(Device());                               // waits for it
//
// What goes wrong later is thrown once for each stream: by the next call on it, a copy to the host,
// or Synchronize. A stream that waits for an event behind it has the error, too. Every function
// throws anyop::Error.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "anyop/value.h"

namespace anyop {

struct StreamState;
struct EventState;

// Where a tensor lies: the host, or a device of a loaded library.
class Device {
 public:
  constexpr Device() : device_(kHostDevice) {}  // the host
  constexpr Device(DLDevice device) : device_(device) {}
  // "cpu", "cuda", "cuda:1". NotAvailable: no loaded library has it.
  explicit Device(std::string_view name);

  bool is_host() const { return IsHost(device_); }
  // "cuda:1"; "device type 7" where no loaded library has it.
  std::string name() const;
  DLDevice dl() const { return device_; }
  bool operator==(const Device& other) const {
    return device_.device_type == other.device_.device_type &&
           device_.device_id == other.device_.device_id;
  }

 private:
  DLDevice device_;
};

struct DeviceInfo {
  Device device;
  std::string model;     // "NVIDIA H200"
  std::string features;  // words for `.needs`, separated by commas
  std::string library;   // the file
  int cores = 0;
  std::uint64_t total_bytes = 0, free_bytes = 0;
  std::string error;  // why its library cannot tell the rest: model, features and sizes are empty
};
// The devices of the loaded libraries, without the host. Does not throw where a device fails: its
// `error` says why.
std::vector<DeviceInfo> Devices();

// Waits for all work on the device.
void Synchronize(Device device);

// A point in the order of a stream.
class Event {
 public:
  bool is_complete() const;
  void Synchronize() const;  // waits for it; throws the late error that its stream had there

 private:
  friend class Stream;
  friend double ElapsedMs(const Event& from, const Event& to);
  std::shared_ptr<EventState> state_;
};
double ElapsedMs(const Event& from, const Event& to);  // both complete

// A queue of work of a device. Copies of the object are the same queue. Work that is on it still
// comes to its end when the last copy is gone.
class Stream {
 public:
  explicit Stream(Device device);                   // a new one
  static Stream Wrap(Device device, void* native);  // a framework's, which keeps it alive
  static Stream Current(Device device);             // that calls of this thread go to

  Device device() const;
  void* native() const;
  Event Record() const;
  // Work that is put here later waits for the event, which is of the same kind of device.
  void Wait(const Event& event) const;
  void Synchronize() const;

 private:
  friend class StreamScope;
  explicit Stream(std::shared_ptr<StreamState> state) : state_(std::move(state)) {}
  std::shared_ptr<StreamState> state_;
};

// Makes a stream the current one of its device for this thread, until the end of the block.
class StreamScope {
 public:
  explicit StreamScope(const Stream& stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;
};

}  // namespace anyop
