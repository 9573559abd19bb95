// SPDX-License-Identifier: Apache-2.0
// Tokens drawn by seeds.
#include <ATen/Parallel.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "rows.h"

namespace anyop::vllm_host {
namespace {

constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u;

// SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t Mixed(std::uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// The token that wins, and the number that it wins with: the least e / w, where
// w = exp(logit - largest) and e is exponentially distributed. That is the largest logit + g with
// g = -ln e, of Gumbel's distribution. Most tokens are passed over without a logarithm.
struct Winner {
  double ratio = std::numeric_limits<double>::infinity();
  std::int64_t token = 0;
};

// exp(x), or a little more; x <= 0. The exponent of a float is linear in x, and its fraction f
// stands for 1 + f, which is at least 2^f: x / ln 2 times 2^23, plus the bits of 1.0f. The factor
// makes up for roundings; 2e-35 is above exp(-80).
float AtLeastExp(float x) {
  if (!(x > -80)) return 2e-35f;
  return std::bit_cast<float>(std::int32_t(x * 12102203.0f + 1065353216.0f)) * 1.001f;
}

// Number i + 1 of the sequence of `key` gives 53 bits, and these u in (0, 1) with e = -ln u, as in
// vLLM's kernel, so that a seed draws the same token.
Winner Draw(const float* logits, float largest, std::uint64_t key, std::int64_t begin,
            std::int64_t end) {
  constexpr double kAll = 0x1p53;
  Winner winner;
  if (largest == -std::numeric_limits<float>::infinity()) return winner;
  std::uint64_t least = 0;  // bits below it cannot win: e >= 1 - u, and w <= 1
  for (std::int64_t i = begin; i < end; ++i) {
    const std::uint64_t bits = Mixed(key + std::uint64_t(i + 1) * kStep) >> 11;
    if (bits < least) continue;
    const float x = logits[i] == largest ? 0 : logits[i] - largest;
    if ((kAll - 0.5 - double(bits)) / kAll >= winner.ratio * AtLeastExp(x)) continue;
    const double w = logits[i] == largest ? 1 : std::exp(double(logits[i]) - double(largest));
    const double e = -std::log((double(bits) + 0.5) / kAll);
    if (!(e < winner.ratio * w)) continue;  // of equals the first stays; a logit of NaN never wins
    winner = {e / w, i};
    least = winner.ratio < 1 ? std::uint64_t(std::floor(kAll - 1 - winner.ratio * kAll)) : 0;
  }
  return winner;
}

std::vector<float> LargestOf(const TorchOperator& argmax, const at::Tensor& logits,
                             const at::Tensor& ids) {
  OpCall(argmax).Tensor(logits).Written(ids).Run();
  std::vector<float> largest(std::size_t(logits.size(0)));
  for (std::size_t r = 0; r < largest.size(); ++r) {
    const auto row = std::int64_t(r);
    largest[r] = logits.const_data_ptr<float>()[row * logits.size(1) +
                                                ids.const_data_ptr<std::int64_t>()[row]];
  }
  return largest;
}

c10::IValue FusedGumbelArgmax(const RowCall& a) {
  const at::Tensor& seeds = a[1].toTensor();
  Lent(a.name, "logits", a[0].toTensor()).MustHaveRank(2, "[requests, tokens]");
  if (a[0].toTensor().scalar_type() != at::kFloat) Refuse(a.name, "logits must be Float.");
  const at::Tensor logits = a[0].toTensor().contiguous();
  const std::int64_t rows = logits.size(0), width = logits.size(1);
  if (seeds.scalar_type() != at::kLong || seeds.dim() != 1 || seeds.size(0) != rows) {
    Refuse(a.name,
           "seeds must be Long, one for each of the " + std::to_string(rows) + " rows of logits.");
  }
  at::Tensor ids = at::detail::empty_cpu({rows}, at::kLong, false, {});
  const std::vector<float> largest = LargestOf(a.op(), logits, ids);
  constexpr std::int64_t kPart = 8192;
  const std::int64_t parts = (width + kPart - 1) / kPart;
  std::vector<Winner> winners(std::size_t(rows * parts));
  at::parallel_for(0, rows * parts, 2, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t r = i / parts, first = i % parts * kPart;
      const auto seed = std::uint64_t(seeds.const_data_ptr<std::int64_t>()[r * seeds.stride(0)]);
      // Seeds that follow one another are mixed, so that their sequences have nothing in common.
      winners[std::size_t(i)] =
          Draw(logits.const_data_ptr<float>() + r * width, largest[std::size_t(r)], Mixed(seed),
               first, std::min(first + kPart, width));
    }
  });
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto first = winners.begin() + r * parts;  // of equal ratios, too, the first part's wins
    ids.mutable_data_ptr<std::int64_t>()[r] =
        std::min_element(first, first + parts, [](const Winner& x, const Winner& y) {
          return x.ratio < y.ratio;
        })->token;
  }
  return ids;
}

constexpr NamedFunction kSamplingFunctions[] = {{"fused_gumbel_argmax", &FusedGumbelArgmax}};

}  // namespace

std::span<const NamedFunction> SamplingFunctions() { return kSamplingFunctions; }

}  // namespace anyop::vllm_host
