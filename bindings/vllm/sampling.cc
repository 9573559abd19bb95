// SPDX-License-Identifier: Apache-2.0
// Tokens drawn by seeds.
#include <ATen/Parallel.h>

#include <cmath>

#include "rows.h"

namespace anyop::vllm_host {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): number i + 1 of the sequence that starts at `state`.
std::uint64_t SplitMix(std::uint64_t state, std::uint64_t i) {
  std::uint64_t z = state + (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// Mixes a seed alone, so that seeds that follow each other have nothing in common.
std::uint64_t Mixed(std::uint64_t seed) { return SplitMix(seed - 0x9e3779b97f4a7c15u, 0); }

// Exponentially distributed noise of one row; vLLM draws its Gumbel noise, -log of it, from the
// same 53 bits.
void FillNoise(std::uint64_t seed, float* noise, std::int64_t begin, std::int64_t end) {
  const std::uint64_t state = Mixed(seed);
  for (std::int64_t i = begin; i < end; ++i) {
    const double bits = double(SplitMix(state, std::uint64_t(i)) >> 11);
    noise[i] = float(-std::log((bits + 0.5) * 0x1p-53));
  }
}

}  // namespace

c10::IValue FusedGumbelArgmax(const c10::IValue* a) {
  constexpr char kName[] = "fused_gumbel_argmax";
  static const TorchOperator& op = Ours("sample");
  const at::Tensor &logits = a[0].toTensor(), &seeds = a[1].toTensor();
  Lent(kName, "logits", logits).MustHaveRank(2, "[requests, tokens]");
  const std::int64_t rows = logits.size(0), width = logits.size(1);
  if (seeds.scalar_type() != at::kLong || seeds.dim() != 1 || seeds.size(0) != rows) {
    Refuse(kName,
           "seeds must be Long, one for each of the " + std::to_string(rows) + " rows of logits.");
  }
  const at::Tensor noise = at::detail::empty_cpu({rows, width}, at::kFloat, false, {});
  float* to = noise.mutable_data_ptr<float>();
  at::parallel_for(0, rows * width, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin / width; r * width < end; ++r) {
      const std::uint64_t seed =
          std::uint64_t(seeds.const_data_ptr<std::int64_t>()[r * seeds.stride(0)]);
      FillNoise(seed, to + r * width, std::max<std::int64_t>(begin - r * width, 0),
                std::min(end - r * width, width));
    }
  });
  at::Tensor ids = at::detail::empty_cpu({rows}, at::kLong, false, {});
  OpCall call(op);
  call.Tensor(logits).Tensor(noise).None().None().None().None().Written(ids).Run();
  return ids;
}

}  // namespace anyop::vllm_host
