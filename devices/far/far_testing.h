// SPDX-License-Identifier: Apache-2.0
// What tests of far share: the library, its functions with their errors, and a few kernels.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "far.h"

namespace far_testing {

// Beside the program.
inline std::string Path() {
  std::array<char, 4096> program{};
  const ssize_t n = readlink("/proc/self/exe", program.data(), program.size());
  const std::string path(program.data(), std::size_t(n));
  return path.substr(0, path.rfind('/')) + "/anyop_far.so";
}

template <class F>
F* Symbol(const char* name) {
  static void* const library = dlopen(Path().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  return reinterpret_cast<F*>(dlsym(library, name));
}

constexpr std::uint64_t kMemoryBytes = 1 << 26;

inline const anyop_device& Table() {
  static const anyop_device* const table = [] {
    Symbol<decltype(far_settings)>("far_settings")(1, kMemoryBytes);
    return Symbol<const anyop_device_info*()>("anyop_device_library")()->device;
  }();
  return *table;
}

inline void Must(int code) { ASSERT_EQ(code, ANYOP_OK) << Table().error_text(); }
// The text of the error, which has this code.
inline std::string Error(int expected, int code) {
  EXPECT_EQ(code, expected);
  return code == ANYOP_OK ? "" : Table().error_text();
}

inline void Delay(std::uint32_t us) { Symbol<decltype(far_delay)>("far_delay")(us); }
inline void Hold(anyop_stream s) { Must(Symbol<decltype(far_hold)>("far_hold")(s)); }
inline void LetGo(anyop_stream s) { Must(Symbol<decltype(far_let_go)>("far_let_go")(s)); }
inline far_counts Counts(int device = 0) {
  far_counts counts = {};
  counts.size = sizeof counts;
  Must(Symbol<decltype(far_count)>("far_count")(device, &counts));
  return counts;
}

class Stream {
 public:
  explicit Stream(int device = 0) : device(device) {
    Must(Table().create_stream(device, &handle_));
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { Must(Table().destroy_stream(handle_)); }
  operator anyop_stream() const { return handle_; }

  template <class T>
  T* New(std::int64_t n) const {
    void* memory = nullptr;
    Must(Table().allocate(device, handle_, std::uint64_t(n) * sizeof(T), &memory));
    return static_cast<T*>(memory);
  }
  void Release(void* memory) const { Must(Table().release(device, handle_, memory)); }
  template <class T>
  void Fill(T* to, std::int64_t n, T item) const {
    Must(Table().fill(handle_, to, std::uint64_t(n), &item, sizeof item));
  }
  template <class T>
  void Write(T* to, const std::vector<T>& from) const {
    Must(Table().copy(handle_, device, to, ANYOP_AT_HOST, from.data(), from.size() * sizeof(T)));
    Wait();  // `from` may be gone
  }
  template <class T>
  void StartRead(const T* from, std::vector<T>* to) const {
    Must(Table().copy(handle_, ANYOP_AT_HOST, to->data(), device, from, to->size() * sizeof(T)));
  }
  template <class T>
  std::vector<T> Read(const T* from, std::int64_t n) const {
    std::vector<T> to(static_cast<std::size_t>(n));
    StartRead(from, &to);
    Wait();
    return to;
  }
  void Wait() const { Must(Table().synchronize(device, handle_)); }

  // The text of the late error, "" if there is none.
  std::string LateError(int code = ANYOP_OK) const {
    char message[256] = "";
    EXPECT_EQ(Table().late_error(device, handle_, 0, message, sizeof message), code);
    return message;
  }

  template <class Block>
  int Submit(const char* name, anyop_task task, const Block& block,
             std::initializer_list<std::uint32_t> addresses) const {
    const std::vector<std::uint32_t> offsets(addresses);
    const anyop_launch launch = {
        sizeof launch, std::uint32_t(offsets.size()), name, task, &block, sizeof block,
        offsets.data()};
    return Table().submit(handle_, &launch);
  }

  const int device;

 private:
  anyop_stream handle_ = nullptr;
};

// What is put on `after` later sees what is on `before` now.
inline void Order(anyop_stream before, anyop_stream after, int device = 0) {
  anyop_event event;
  Must(Table().create_event(device, &event));
  Must(Table().record_event(event, before));
  Must(Table().wait_event(event, after));
  Must(Table().destroy_event(event));
}

struct AddBlock {
  const float *a, *b;
  float* sum;
  std::int64_t n;
};
inline std::atomic<int> n_dropped{0};  // tasks, of all that were submitted by what follows
inline int Add(void* block, char* message, std::uint64_t) {
  if (!message) return ++n_dropped, ANYOP_OK;
  const AddBlock& k = *static_cast<const AddBlock*>(block);
  for (std::int64_t i = 0; i < k.n; ++i) k.sum[i] = k.a[i] + k.b[i];
  return ANYOP_OK;
}
inline void SubmitAdd(const Stream& s, const float* a, const float* b, float* sum, std::int64_t n) {
  Must(s.Submit("add in cpu_test", &Add, AddBlock{a, b, sum, n}, {0, 8, 16}));
}

struct BelowBlock {
  const std::int64_t* index;
  std::int64_t n, limit;
};
inline int Below(void* block, char* message, std::uint64_t message_bytes) {
  if (!message) return ++n_dropped, ANYOP_OK;
  const BelowBlock& k = *static_cast<const BelowBlock*>(block);
  for (std::int64_t i = 0; i < k.n; ++i) {
    if (k.index[i] < k.limit) continue;
    std::snprintf(message, message_bytes, "take: ids: [%ld] is %ld, but must be less than %ld.",
                  long(i), long(k.index[i]), long(k.limit));
    return ANYOP_INVALID_ARGUMENT;
  }
  return ANYOP_OK;
}
inline void SubmitBelow(const Stream& s, const std::int64_t* index, std::int64_t n,
                        std::int64_t limit) {
  Must(s.Submit("take: ids", &Below, BelowBlock{index, n, limit}, {0}));
}

}  // namespace far_testing
