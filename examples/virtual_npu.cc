// SPDX-License-Identifier: Apache-2.0
// A call on the virtual NPU: docs/ascend.md.
#include <cstdio>

#include "anyop/runtime.h"

int main() try {
  // ---8<---
  using anyop::Array, anyop::Call, anyop::Device, anyop::DType;
  anyop::Load("anyop_ascend_device.so");
  const Array x = Array::Full({2, 64}, DType::kF32, 3).On(Device("ascend"));
  const Array y = Call("rms_norm", x);  // returns at once
  const Array result = y.On(Device());  // waits, and copies to the host
  // --->8---
  std::printf("%s %.4f\n", y.device().name().c_str(), double(result.at<float>(1, 63)));
  return 0;
} catch (const anyop::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
