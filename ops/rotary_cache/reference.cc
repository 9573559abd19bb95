// SPDX-License-Identifier: Apache-2.0
// Written from the formulas in the opposite order to the kernel: one pass over elements, and long
// double where the entry says f64, so that a slip in one shows in the other.
#include <cmath>
#include <numbers>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

using Real = long double;
constexpr Real kPi = std::numbers::pi_v<Real>;

struct Table {
  Real r, base, factor, alpha;
  std::optional<double> mixed_b;
  Real longest, original, fast, slow, extrapolation;
  bool truncate;
  Real low, high;

  Real F(Real j, Real b) const { return std::exp(-2 * j / r * std::log(b)); }
  Real Ntk(Real j) const {
    if (!mixed_b) return F(j, base * factor) / std::pow(factor, 2 / r);
    const Real z = *mixed_b;
    return F(j, base) / std::exp(std::log(factor) * std::pow((j + 1) / (r / 2), z));
  }
  Real Yarn(Real j, bool rounds) const {
    Real from = r * std::log(original / (fast * 2 * kPi)) / std::log(base) / 2;
    Real to = r * std::log(original / (slow * 2 * kPi)) / std::log(base) / 2;
    if (rounds) from = std::floor(from);
    if (rounds) to = std::ceil(to);
    from = from < 0 ? 0 : from;
    to = to > r - 1 ? r - 1 : to;
    if (from == to) to += 0.001L;
    Real t = (j - from) / (to - from);
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    const Real w = (1 - t) * extrapolation;
    return F(j, base) * (w + (1 - w) / factor);
  }
  Real Llama3(Real j) const {
    const Real g = F(j, base), turns = original * g / (2 * kPi);
    if (turns > high) return g;
    if (turns < low) return g / factor;
    const Real z = high == low ? 0 : (turns - low) / (high - low);
    return z * g + (1 - z) * g / factor;
  }
};

Real H(Real s, Real m) { return s <= 1 ? 1 : 1 + m * std::log(s) / 10; }

void Run(const Context&, std::int64_t length, std::int64_t rot_dim, std::string_view kind,
         double base, double factor, double alpha, std::optional<double> mixed_b,
         std::int64_t max_position, std::int64_t original_max_position, double beta_fast,
         double beta_slow, double extrapolation, bool truncate, double attn_factor,
         bool apply_yarn_scaling, double mscale, double mscale_all_dim, double low_freq_factor,
         double high_freq_factor, std::optional<std::span<const double>> rescale,
         std::int64_t rotated, DType, const Tensor& cache) {
  const Real s = Real(max_position) / Real(original_max_position), r = Real(rot_dim);
  const Table t{r,
                base,
                factor,
                alpha,
                mixed_b,
                Real(max_position),
                Real(original_max_position),
                beta_fast,
                beta_slow,
                extrapolation,
                truncate,
                low_freq_factor,
                high_freq_factor};
  for (std::int64_t j = 0; j < rot_dim / 2; ++j) {
    const Real x = Real(j);
    Real f = t.F(x, t.base), m = 1;
    if (kind == "linear") f /= t.factor;
    if (kind == "ntk") f = t.Ntk(x);
    if (kind == "dynamic_alpha") f = t.F(x, t.base * std::pow(t.alpha, r / (r - 2)));
    if (kind == "dynamic_factor") {
      f = t.F(x, t.base * std::pow(t.factor * s - t.factor + 1, r / (r - 2)));
    }
    if (kind == "yarn") f = t.Yarn(x, truncate), m = apply_yarn_scaling ? H(factor, 1) : 1;
    if (kind == "deepseek_yarn") {
      f = t.Yarn(x, true), m = H(factor, mscale) / H(factor, mscale_all_dim);
    }
    if (kind == "llama3") f = t.Llama3(x);
    if (kind == "longrope") {
      f /= (*rescale)[std::size_t(j)];
      m = s <= 1 ? 1 : std::sqrt(1 + std::log(s) / std::log(t.original));
    }
    if (kind == "proportional") f = j < (rotated ? rotated : rot_dim) / 2 ? f / t.factor : 0;
    if (kind == "yarn" || kind == "deepseek_yarn" || kind == "longrope") m *= attn_factor;
    for (std::int64_t i = 0; i < length; ++i) {
      const float angle = float(i) * float(f);
      *cache.at<double>(i, j) = double(float(m)) * std::cos(double(angle));
      *cache.at<double>(i, j + rot_dim / 2) = double(float(m)) * std::sin(double(angle));
    }
  }
}

}  // namespace

extern constinit const Reference rotary_cache_reference{.op = "rotary_cache", .run = Bind<&Run>()};

}  // namespace anyop::ops
