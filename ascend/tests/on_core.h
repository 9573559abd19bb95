// SPDX-License-Identifier: Apache-2.0
// Runs pieces of kernels in tests and reads what was found.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "anyop_ascend/kernel_table.h"
#include "kernel_operator.h"

namespace ascend_tests {

// Memory of an argument, declared under a name.
template <class T>
class Global {
 public:
  Global(const char* name, std::size_t elements, std::uint32_t access)
      : data_(static_cast<T*>(anyop_ascend_allocate(elements * sizeof(T)))), elements_(elements) {
    anyop_ascend_declare(data_, elements * sizeof(T), name, access);
  }
  Global(const char* name, const std::vector<T>& values)
      : Global(name, values.size(), ANYOP_ASCEND_READ) {
    std::copy(values.begin(), values.end(), data_);
  }
  Global(const Global&) = delete;
  Global& operator=(const Global&) = delete;
  ~Global() { anyop_ascend_release(data_); }

  GM_ADDR address() const { return reinterpret_cast<std::uint8_t*>(data_); }
  T* data() const { return data_; }
  T operator[](std::size_t i) const { return data_[i]; }
  AscendC::GlobalTensor<T> tensor() const {
    AscendC::GlobalTensor<T> tensor;
    tensor.SetGlobalBuffer(data_, elements_);
    return tensor;
  }

 private:
  T* data_;
  std::size_t elements_;
};

// Calls a body as each block of a launch, with checks if this file has them.
template <class F>
inline void OnCores(std::uint32_t blocks, F body) {
  anyop_ascend::Launch({"test", blocks, AscendC::kChecked, false,
                        [](void* called) { (*static_cast<F*>(called))(); }, &body});
}

inline nlohmann::json Findings() { return nlohmann::json::parse(anyop_ascend_findings()); }
inline void Configure(bool is_strict, std::uint64_t seed, const char* soc = nullptr,
                      std::uint64_t max_steps = 0) {
  anyop_ascend_options options{};
  options.bytes = sizeof options;
  options.strict = is_strict;
  options.seed = seed;
  options.soc = soc;
  options.max_steps = max_steps;
  anyop_ascend_configure(&options);
}

// Small numbers that do not repeat soon.
inline std::uint32_t Drawn(std::uint32_t& state) {
  state = state * 1664525u + 1013904223u;
  return state >> 8;
}

}  // namespace ascend_tests
