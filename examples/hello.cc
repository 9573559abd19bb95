// SPDX-License-Identifier: Apache-2.0
// Calls a built-in operator and one of an own library from C++.
#include <cstdio>

#include "anyop/runtime.h"

int main(int argc, char** argv) try {
  // ---8<---
  using anyop::Array, anyop::Call, anyop::DType, anyop::Named;
  const Array x = Array::Full({2, 64}, DType::kF32, 3);
  const Array weight = Array::Full({64}, DType::kF32, 0.5);
  const Array y = Call("rms_norm", x, weight, Named("eps", 1e-5));
  Call("rms_norm", x, weight).into(x);  // `y over x` allows it
  // --->8---
  std::printf("%.4f %.4f\n", double(y.at<float>(1, 63)), double(x.at<float>(0, 0)));

  if (argc > 1) {
    anyop::Load(argv[1]);  // my_ops.so
    const Array twice = Call("my_ops.scale_rows", y, Array::Full({2, 1}, DType::kF32, 2));
    std::printf("%.4f\n", double(twice.at<float>(0, 0)));
  }
  return 0;
} catch (const anyop::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
