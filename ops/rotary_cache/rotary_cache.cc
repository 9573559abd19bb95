// SPDX-License-Identifier: Apache-2.0
// rotary_cache: the table of cosines and sines that rotary position embeddings read.
//
//   cache[i, j] = M * cos(i * f_j)     cache[i, q + j] = M * sin(i * f_j)     j < q = rot_dim / 2
//
// With F_j(b) = b^(-2j / rot_dim), r = rot_dim, and M = 1 unless said:
//   default         f_j = F_j(base)
//   linear          f_j = F_j(base) / factor
//   ntk             f_j = F_j(base * factor) * factor^(-2/r); with mixed_b = z
//                   f_j = F_j(base) * exp(-a * (j+1)^z), a = ln(factor) / (r/2)^z
//   dynamic_alpha   f_j = F_j(base * alpha^(r/(r-2)))
//   dynamic_factor  f_j = F_j(base * (factor * max_position / original_max_position
//                   - (factor - 1))^(r/(r-2)))
//   yarn            f_j = F_j(base) * ((1 - w_j)/factor + w_j), w_j a ramp over the pairs that turn
//                   between beta_slow and beta_fast times in original_max_position, its ends
//                   rounded outwards if truncate; M = (0.1*ln(factor) + 1) * attn_factor for factor
//                   > 1, M = attn_factor if not apply_yarn_scaling
//   deepseek_yarn   f_j as yarn; M = h(mscale) / h(mscale_all_dim) * attn_factor,
//                   h(m) = 0.1*m*ln(factor) + 1 for factor > 1, else 1
//   llama3          f_j = F_j(base), divided by factor for wavelengths above
//                   original_max_position / low_freq_factor, blended from
//                   original_max_position / high_freq_factor on
//   longrope        f_j = F_j(base) / rescale[j]; with s = max_position / original_max_position
//                   M = sqrt(1 + ln(s) / ln(original_max_position)) for s > 1, times attn_factor
//   proportional    f_j = F_j(base) / factor for j < rotated/2 (0: rot_dim), f_j = 0 above
//
//   length   rows: positions 0 ... length - 1
//   rotated  of 'proportional': how many elements of a head turn, an even number
//   to       the dtype of the table: f32, f16 or bf16
//
// Parameters that would put an infinity or NaN into the table are refused.
//
// Numerics  f_j in f64, rounded to f32; angle f32(i) * f_j rounded to f32; its cosine and sine
//           within 1 ulp, times f32 M, then rounded to `to`.
// Source    arXiv:2309.00071 (yarn), 2402.13753 (longrope); Llama 3.1 and DeepSeek-V2 releases;
//           vLLM 0.27.1, transformers 5.23.
#include <cmath>
#include <string>

#include "ops/common/elementwise/elementwise.h"
#include "ops/common/rotation/finite_angles.h"
#include "ops/common/workspace.h"
#include "ops/rotary_cache/frequencies.h"

namespace anyop::ops {
namespace {

using Words = std::string_view;
using Rescale = std::optional<std::span<const double>>;

void CheckParameters(const RotarySpec& spec) {
  const std::string_view kind = spec.kind;
  const bool is_dynamic = kind == "dynamic_alpha" || kind == "dynamic_factor";
  const bool needs_both = kind == "dynamic_factor" || kind == "longrope";
  const bool needs_original =
      needs_both || kind == "yarn" || kind == "deepseek_yarn" || kind == "llama3";
  const auto refuse = [&](const char* name, std::int64_t value, int least) {
    Refuse(std::string(name) + " is " + std::to_string(value) + ", but must be at least " +
           std::to_string(least) + " because kind is '" + std::string(kind) + "'.");
  };
  if (needs_original && spec.original_max_position < 1) {
    refuse("original_max_position", spec.original_max_position, 1);
  }
  if (needs_both && spec.max_position < 1) refuse("max_position", spec.max_position, 1);
  if (is_dynamic && spec.rot_dim <= 2) refuse("rot_dim", spec.rot_dim, 4);
}

void CheckFinite(const RotarySpec& spec, std::int64_t length, DType to) {
  const std::string with = " with kind '" + std::string(spec.kind) + "'";
  for (std::int64_t j = 0; j < spec.rot_dim / 2; ++j) {
    CheckAngles(j, float(Frequency(spec, j)), length - 1, with);
  }
  const float magnitude = float(Magnitude(spec));
  VisitFloat(to, [&](auto zero) {
    if (std::isfinite(float(decltype(zero)(magnitude)))) return;
    Refuse("the magnitude of the table is " + ShowFloat(magnitude) + with +
           ", but must be a finite " + std::string(Name(to)) +
           ", because every element is a multiple of it.");
  });
}

void Check(const Context&, std::int64_t length, std::int64_t rot_dim, Words kind, double base,
           double factor, double alpha, std::optional<double> mixed_b, std::int64_t max_position,
           std::int64_t original_max_position, double beta_fast, double beta_slow,
           double extrapolation, bool truncate, double attn_factor, bool apply_yarn_scaling,
           double mscale, double mscale_all_dim, double low_freq_factor, double high_freq_factor,
           Rescale rescale, std::int64_t rotated, DType to) {
  const RotarySpec spec{rot_dim,
                        kind,
                        base,
                        factor,
                        alpha,
                        mixed_b,
                        max_position,
                        original_max_position,
                        beta_fast,
                        beta_slow,
                        extrapolation,
                        truncate,
                        attn_factor,
                        apply_yarn_scaling,
                        mscale,
                        mscale_all_dim,
                        low_freq_factor,
                        high_freq_factor,
                        rescale,
                        rotated};
  CheckParameters(spec);
  CheckFinite(spec, length, to);
}

template <class T>
void Fill(const Context& ctx, std::span<const float> frequencies, float magnitude,
          const Tensor& cache) {
  const std::int64_t q = std::int64_t(frequencies.size());
  ctx.ForRows(
      cache,
      [&](std::int64_t i) {
        const std::span<T> row = cache.row<T>(i);
        for (std::int64_t j = 0; j < q; ++j) {
          const double angle = float(i) * frequencies[std::size_t(j)];
          row[std::size_t(j)] = T(float(std::cos(angle)) * magnitude);
          row[std::size_t(q + j)] = T(float(std::sin(angle)) * magnitude);
        }
      },
      20);
}

template <class N>
struct CacheWorkspace : Workspace<N> {
  Part<float, N> frequencies;  // [rot_dim / 2]
  constexpr explicit CacheWorkspace(N rot_dim)
      : frequencies(this->template Add<float>(rot_dim / N(2))) {}
};
constexpr SizeText CacheBytes() { return CacheWorkspace<SizeText>("rot_dim").bytes(); }

void Run(const Context& ctx, std::int64_t, std::int64_t rot_dim, Words kind, double base,
         double factor, double alpha, std::optional<double> mixed_b, std::int64_t max_position,
         std::int64_t original_max_position, double beta_fast, double beta_slow,
         double extrapolation, bool truncate, double attn_factor, bool apply_yarn_scaling,
         double mscale, double mscale_all_dim, double low_freq_factor, double high_freq_factor,
         Rescale rescale, std::int64_t rotated, DType to, const Tensor& cache) {
  const RotarySpec spec{rot_dim,
                        kind,
                        base,
                        factor,
                        alpha,
                        mixed_b,
                        max_position,
                        original_max_position,
                        beta_fast,
                        beta_slow,
                        extrapolation,
                        truncate,
                        attn_factor,
                        apply_yarn_scaling,
                        mscale,
                        mscale_all_dim,
                        low_freq_factor,
                        high_freq_factor,
                        rescale,
                        rotated};
  const CacheWorkspace<std::int64_t> parts(rot_dim);
  const std::span<float> frequencies(Placed(ctx, parts)[parts.frequencies],
                                     std::size_t(parts.frequencies.count));
  for (std::size_t j = 0; j < frequencies.size(); ++j) {
    frequencies[j] = float(Frequency(spec, std::int64_t(j)));
  }
  const float magnitude = float(Magnitude(spec));
  VisitFloat(to, [&](auto zero) { Fill<decltype(zero)>(ctx, frequencies, magnitude, cache); });
}

}  // namespace

ANYOP_KERNEL(rotary_cache){
    .workspace = kWorkspace<&CacheBytes>,
    .run = Bind<&Run>(),
};

extern constinit const Op rotary_cache{
    .signature =
        "rotary_cache(length: int, rot_dim: int, kind: 'default' | 'linear' | 'ntk' | "
        "'dynamic_alpha' | 'dynamic_factor' | 'yarn' | 'deepseek_yarn' | 'llama3' | 'longrope' | "
        "'proportional' = 'default', base: float = 10000.0, factor: float = 1.0, "
        "alpha: float = 1.0, mixed_b: float?, max_position: int = 0, "
        "original_max_position: int = 0, beta_fast: float = 32.0, beta_slow: float = 1.0, "
        "extrapolation: float = 1.0, truncate: bool = True, attn_factor: float = 1.0, "
        "apply_yarn_scaling: bool = True, mscale: float = 1.0, mscale_all_dim: float = 0.0, "
        "low_freq_factor: float = 1.0, high_freq_factor: float = 4.0, rescale: float[]?, "
        "rotated: int = 0, to: dtype = f32) -> (cache: to[length, rot_dim]) "
        "where to in f32 | f16 | bf16, length >= 0, rot_dim >= 2, rot_dim % 2 == 0, base > 0, "
        "factor > 0, rotated >= 0, "
        "rotated <= rot_dim, rotated % 2 == 0, "
        "kind != 'longrope' or (given(rescale) and len(rescale) == rot_dim/2)",
    .flops = "length * rot_dim * 40",
    .check = Bind<&Check>(),
};

}  // namespace anyop::ops
