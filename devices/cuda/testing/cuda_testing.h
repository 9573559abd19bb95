// SPDX-License-Identifier: Apache-2.0
// What tests of the library on the fake driver share: the library, the driver, streams and events.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "anyop/device.h"
#include "fake_driver.h"

namespace cuda_test {

using anyop::cuda::FakeCuda;

// Beside the program.
inline std::string Folder() {
  std::array<char, 4096> program{};
  const ssize_t n = readlink("/proc/self/exe", program.data(), program.size());
  const std::string path(program.data(), std::size_t(n));
  return path.substr(0, path.rfind('/')) + "/";
}

inline void* Open(const std::string& file) {
  void* const library = dlopen((Folder() + file).c_str(), RTLD_NOW);
  if (!library) throw std::runtime_error(dlerror());
  return library;
}

// The driver that the library finds by its name, as it is there already.
inline FakeCuda& Driver(const std::string& folder = "fake_driver") {
  static void* const library = Open(folder + "/libcuda.so.1");
  return *reinterpret_cast<FakeCuda* (*)()>(dlsym(library, "fake_cuda"))();
}

inline const anyop_device& TableAlone() {
  static const auto* const info = reinterpret_cast<const anyop_device_info* (*)()>(
      dlsym(Open("anyop_cuda_fake.so"), "anyop_device_library"))();
  return *info->device;
}
inline const anyop_device& Table() {
  Driver();
  return TableAlone();
}

inline void Must(int code) { ASSERT_EQ(code, ANYOP_OK) << Table().error_text(); }
inline std::string ErrorOf(int expected, int code) {
  EXPECT_EQ(code, expected);
  return code == ANYOP_OK ? "" : Table().error_text();
}
inline std::string LateError(anyop_stream stream, bool all = false) {
  std::array<char, 256> text{};
  Table().late_error(0, stream, all, text.data(), text.size());
  return text.data();
}

class Stream {
 public:
  explicit Stream(int number = 0) : card(number) { Must(Table().create_stream(card, &handle_)); }
  ~Stream() { Must(Table().destroy_stream(handle_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator anyop_stream() const { return handle_; }

  template <class T>
  T* New(std::size_t n) const {
    void* memory = nullptr;
    Must(Table().allocate(card, handle_, n * sizeof(T), &memory));
    return static_cast<T*>(memory);
  }
  void Release(void* memory) const { Must(Table().release(card, handle_, memory)); }
  template <class T>
  T* Brought(const std::vector<T>& from) const {
    T* const to = New<T>(from.size());
    Must(Table().copy(handle_, card, to, ANYOP_AT_HOST, from.data(), from.size() * sizeof(T)));
    Wait();
    return to;
  }
  template <class T>
  std::vector<T> Read(const T* from, std::size_t n) const {
    std::vector<T> to(n);
    Must(Table().copy(handle_, ANYOP_AT_HOST, to.data(), card, from, n * sizeof(T)));
    Wait();
    return to;
  }
  void Wait() const { Must(Table().synchronize(card, handle_)); }

  const int card;

 private:
  anyop_stream handle_ = nullptr;
};

class Event {
 public:
  explicit Event(int card = 0) { Must(Table().create_event(card, &handle_)); }
  ~Event() { Must(Table().destroy_event(handle_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator anyop_event() const { return handle_; }
  bool is_complete() const {
    int32_t is_complete = -1;
    Must(Table().query_event(handle_, &is_complete));
    return is_complete == 1;
  }

 private:
  anyop_event handle_ = nullptr;
};

}  // namespace cuda_test
