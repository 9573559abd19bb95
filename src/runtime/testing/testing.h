// SPDX-License-Identifier: Apache-2.0
// What the runtime's tests share.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "anyop/runtime.h"
#include "runtime/registry/registry.h"
#include "runtime/run/call.h"

namespace anyop {

// The library of test operators is loaded before any test.
class TestingLibrary : public ::testing::Environment {
 public:
  void SetUp() override { Load(Path()); }
  static std::string Path() { return LibraryFolder() + "../tests/anyop_testing.so"; }
};
inline ::testing::Environment* const kTestingLibrary =
    ::testing::AddGlobalTestEnvironment(new TestingLibrary);

// Whether a sanitizer, "asan" or "tsan", is in the process: programs of a plain build also run with
// sanitized libraries.
inline bool HasSanitizer(const std::string& name) {
  return dlsym(RTLD_DEFAULT, ("__" + name + "_init").c_str()) != nullptr;
}

// The text of the error that f throws; "" if it throws none.
template <class F>
std::string ErrorOf(F&& f, int* code = nullptr) {
  try {
    f();
  } catch (const Error& e) {
    if (code) *code = e.code;
    return e.what();
  }
  return "";
}

inline Array Floats(std::initializer_list<std::int64_t> shape,
                    std::initializer_list<float> values) {
  Array a = Array::Empty(shape, DType::kF32);
  std::copy(values.begin(), values.end(), a.data<float>());
  return a;
}
// 0, 1, 2, ...
inline Array Counting(std::initializer_list<std::int64_t> shape) {
  Array a = Array::Empty(shape, DType::kF32);
  for (std::int64_t i = 0; i < a.size(); ++i) a.data<float>()[i] = float(i);
  return a;
}
inline Array Ints(std::initializer_list<std::int64_t> values) {
  Array a = Array::Empty({std::int64_t(values.size())}, DType::kI64);
  std::copy(values.begin(), values.end(), a.data<std::int64_t>());
  return a;
}
inline std::vector<float> Values(const Array& a) {
  const Array c = a.Clone();
  return std::vector<float>(c.data<float>(), c.data<float>() + c.size());
}

inline CounterRow CountersFor(const std::string& op, const std::string& kernel) {
  for (const CounterRow& r : Counters()) {
    if (r.op == op && r.kernel == kernel) return r;
  }
  return {op, kernel};
}

}  // namespace anyop
