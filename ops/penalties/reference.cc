// SPDX-License-Identifier: Apache-2.0
// Token by token over the whole vocabulary. Steps are rounded to f32: the entry says so.
#include <vector>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

// How often each of the v tokens occurs in a row; padding does not count.
std::vector<int> Count(const Tensor& tokens, std::int64_t row, std::int64_t v) {
  std::vector<int> counts(std::size_t(v), 0);
  for (std::int64_t j = 0; j < tokens.dim(1); ++j) {
    const std::int64_t token = ReadIndex(tokens, row * tokens.stride(0) + j);
    if (token >= 0 && token < v) ++counts[std::size_t(token)];
  }
  return counts;
}

void Run(const Context&, const Tensor& logits, const Tensor& prompt_tokens,
         const Tensor& output_tokens, const Tensor& repetition, const Tensor& frequency,
         const Tensor& presence) {
  for (std::int64_t r = 0; r < logits.dim(0); ++r) {
    const float factor = float(Read(repetition, r));
    const std::vector<int> in_prompt = Count(prompt_tokens, r, logits.dim(1));
    const std::vector<int> in_output = Count(output_tokens, r, logits.dim(1));
    for (std::int64_t j = 0; j < logits.dim(1); ++j) {
      const int used = in_output[std::size_t(j)], prompted = in_prompt[std::size_t(j)];
      float l = float(*logits.at<double>(r, j));
      if (used + prompted > 0) l = l > 0 ? l / factor : l * factor;
      if (used > 0) {
        const float by_count = float(Read(frequency, r)) * float(used);
        l -= by_count;
        l -= float(Read(presence, r));
      }
      *logits.at<double>(r, j) = l;
    }
  }
}

}  // namespace

extern constinit const Reference penalties_reference{.op = "penalties", .run = Bind<&Run>()};

}  // namespace anyop::ops
