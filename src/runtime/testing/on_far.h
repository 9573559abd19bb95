// SPDX-License-Identifier: Apache-2.0
// The far device (devices/far) in tests of the runtime and of graphs.
#pragma once
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "anyop/stream.h"
#include "runtime/device/device.h"
#include "runtime/testing/testing.h"

namespace anyop {

inline std::string FarPath() { return LibraryFolder() + "../tests/anyop_far.so"; }
inline Device Far(int number = 0) {
  static const bool is_loaded = [] {
    Load(FarPath());
    return true;
  }();
  return Device("far:" + std::to_string(is_loaded * number));
}

inline Array OnFar(const Array& a) { return a.On(Far()); }
// Waits for the work on the stream, and takes no error of it.
inline void Finish(const Stream& stream) {
  const Event end = stream.Record();
  while (!end.is_complete()) std::this_thread::yield();
}
// Column k of a matrix, which has gaps.
inline Array Column(const Array& matrix, std::int64_t k) {
  const Array column = matrix.Slice(1, k, k + 1);
  DLTensor t = column.tensor();
  t.ndim = 1;
  return Array::Wrap(t, std::make_shared<Array>(column));
}
inline std::vector<float> FromFar(const Array& a) { return Values(a.On(Device())); }

// While it lives, no work on the stream begins. See far.h.
class Held {
 public:
  explicit Held(const Stream& stream) : stream_(stream) { Change("far_hold"); }
  ~Held() { LetGo(); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  void LetGo() {
    if (!std::exchange(is_let_go_, true)) Change("far_let_go");
  }

 private:
  void Change(const char* function) const {
    void* const library = dlopen(FarPath().c_str(), RTLD_NOW);
    EXPECT_EQ(reinterpret_cast<int (*)(void*)>(dlsym(library, function))(stream_.native()), 0);
  }
  const Stream& stream_;
  bool is_let_go_ = false;
};

// Counts what the runtime asks of far while it lives. A test may change `table` and `runs`: how far
// fails, or what kind of device it is. Work from before is over when the counts begin.
class WatchedFar {
 public:
  WatchedFar() : kind_(const_cast<DeviceKind&>(DeviceKindOf(Far().dl()))) {
    for (const int number : {0, 1}) Synchronize(Far(number));
    allocations = releases = to_host = to_device = waits = submits = streams = events = 0;
    real = kind_.table, runs_ = kind_.runs;
    table.allocate = [](int32_t number, anyop_stream s, std::uint64_t bytes, void** memory) {
      const int code = real.allocate(number, s, bytes, memory);
      allocations += code == ANYOP_OK;
      return code;
    };
    table.release = [](int32_t number, anyop_stream s, void* memory) {
      const int code = real.release(number, s, memory);
      EXPECT_EQ(code, ANYOP_OK) << real.error_text();
      return ++releases, code;
    };
    table.copy = [](anyop_stream s, int32_t to, void* goal, int32_t from, const void* source,
                    std::uint64_t bytes) {
      to_host += to == ANYOP_AT_HOST, to_device += from == ANYOP_AT_HOST;
      return real.copy(s, to, goal, from, source, bytes);
    };
    table.synchronize = [](int32_t number, anyop_stream s) {
      return ++waits, real.synchronize(number, s);
    };
    table.submit = [](anyop_stream s, const anyop_launch* launch) {
      return ++submits, real.submit(s, launch);
    };
    table.create_stream = [](int32_t number, anyop_stream* s) {
      return ++streams, real.create_stream(number, s);
    };
    table.destroy_stream = [](anyop_stream s) { return --streams, real.destroy_stream(s); };
    table.create_event = [](int32_t number, anyop_event* e) {
      return ++events, real.create_event(number, e);
    };
    table.destroy_event = [](anyop_event e) { return --events, real.destroy_event(e); };
  }
  ~WatchedFar() { kind_.table = real, kind_.runs = runs_; }
  WatchedFar(const WatchedFar&) = delete;
  WatchedFar& operator=(const WatchedFar&) = delete;

  // Streams and events: those that are there, of what was made since then.
  static inline int allocations, releases, to_host, to_device, waits, submits, streams, events;
  static inline anyop_device real{};  // far as it is

 private:
  DeviceKind& kind_;
  std::vector<std::string> runs_;

 public:
  anyop_device& table = kind_.table;
  std::vector<std::string>& runs = kind_.runs;
};

}  // namespace anyop
