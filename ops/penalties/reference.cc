// SPDX-License-Identifier: Apache-2.0
// Token by token over the whole vocabulary. Steps are rounded to f32: the entry says so.
#include "anyop/op.h"

namespace anyop::ops {
namespace {

int Occurrences(const Tensor& tokens, std::int64_t row, std::int64_t token) {
  int n = 0;
  for (std::int64_t j = 0; j < tokens.dim(1); ++j) {
    n += ReadIndex(tokens, row * tokens.stride(0) + j) == token ? 1 : 0;
  }
  return n;
}

void Run(const Context&, const Tensor& logits, const Tensor& prompt_tokens,
         const Tensor& output_tokens, const Tensor& repetition, const Tensor& frequency,
         const Tensor& presence) {
  for (std::int64_t r = 0; r < logits.dim(0); ++r) {
    const float factor = float(Read(repetition, r));
    for (std::int64_t j = 0; j < logits.dim(1); ++j) {
      const int used = Occurrences(output_tokens, r, j);
      float l = float(*logits.at<double>(r, j));
      if (used > 0 || Occurrences(prompt_tokens, r, j) > 0) l = l > 0 ? l / factor : l * factor;
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
