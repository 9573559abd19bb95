// SPDX-License-Identifier: Apache-2.0
// my_custom_op for mindspore.ops.Custom (aot), for comparison: f32 alone, nothing is checked, and
// what its result is stands in old_way.py again.
#include <cstdint>

extern "C" int MyCustomOp(int, void** data, int* ranks, std::int64_t** sizes, const char**, void*,
                          void*) {
  const float param1 = *static_cast<float*>(data[0]), param2 = *static_cast<float*>(data[1]);
  const float* input = static_cast<float*>(data[2]);
  float* output = static_cast<float*>(data[3]);
  std::int64_t n = 1;
  for (int i = 0; i < ranks[2]; ++i) n *= sizes[2][i];
  for (std::int64_t i = 0; i < n; ++i) output[i] = param1 * input[i] + param2;
  return 0;
}
