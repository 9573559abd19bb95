// SPDX-License-Identifier: Apache-2.0
// The far device (devices/far) in tests of the runtime and of graphs.
#pragma once
#include <string>
#include <vector>

#include "anyop/stream.h"
#include "runtime/testing/testing.h"

namespace anyop {

inline Device Far(int number = 0) {
  static const bool is_loaded = [] {
    Load(LibraryFolder() + "../tests/anyop_far.so");
    return true;
  }();
  return Device("far:" + std::to_string(is_loaded * number));
}

inline Array OnFar(const Array& a) { return a.On(Far()); }
inline std::vector<float> FromFar(const Array& a) { return Values(a.On(Device())); }

}  // namespace anyop
