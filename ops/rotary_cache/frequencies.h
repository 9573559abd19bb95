// SPDX-License-Identifier: Apache-2.0
// Frequencies and magnitude of rotary position tables, one function per kind.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <optional>
#include <span>
#include <string_view>

namespace anyop::ops {
namespace {

// The parameters of rotary_cache that shape frequencies, with its names.
struct RotarySpec {
  std::int64_t rot_dim;
  std::string_view kind;
  double base, factor, alpha;
  std::optional<double> mixed_b;
  std::int64_t max_position, original_max_position;
  double beta_fast, beta_slow, extrapolation;
  bool truncate;
  double attn_factor;
  bool apply_yarn_scaling;
  double mscale, mscale_all_dim, low_freq_factor, high_freq_factor;
  std::optional<std::span<const double>> rescale;  // there for longrope
  std::int64_t rotated;

  // base^(-2j / rot_dim)
  double Plain(std::int64_t j, double b) const {
    return std::pow(b, -2.0 * double(j) / double(rot_dim));
  }
};

inline double Ntk(const RotarySpec& s, std::int64_t j) {
  const double r = double(s.rot_dim);
  if (!s.mixed_b) return s.Plain(j, s.base * s.factor) * std::pow(s.factor, -2.0 / r);
  const double a = std::log(s.factor) / std::pow(r / 2, *s.mixed_b);
  return s.Plain(j, s.base) * std::exp(-a * std::pow(double(j + 1), *s.mixed_b));
}

inline double Dynamic(const RotarySpec& s, std::int64_t j, double stretch) {
  const double r = double(s.rot_dim);
  return s.Plain(j, s.base * std::pow(stretch, r / (r - 2)));
}

inline double Yarn(const RotarySpec& s, std::int64_t j, bool truncate) {
  const double r = double(s.rot_dim);
  const auto turns = [&](double b) {
    return r * std::log(double(s.original_max_position) / (2 * std::numbers::pi * b)) /
           (2 * std::log(s.base));
  };
  double low = turns(s.beta_fast), high = turns(s.beta_slow);
  if (truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, r - 1);
  if (low == high) high += 0.001;
  const double ramp = std::clamp((double(j) - low) / (high - low), 0.0, 1.0);
  const double w = (1 - ramp) * s.extrapolation;
  return s.Plain(j, s.base) * ((1 - w) / s.factor + w);
}

inline double Llama3(const RotarySpec& s, std::int64_t j) {
  const double g = s.Plain(j, s.base), length = double(s.original_max_position);
  const double wave = 2 * std::numbers::pi / g;
  if (wave < length / s.high_freq_factor) return g;
  if (wave > length / s.low_freq_factor) return g / s.factor;
  const double span = s.high_freq_factor - s.low_freq_factor;
  const double z = span == 0 ? 0 : (length / wave - s.low_freq_factor) / span;
  return (1 - z) * g / s.factor + z * g;
}

inline double Proportional(const RotarySpec& s, std::int64_t j) {
  const std::int64_t rotated = s.rotated == 0 ? s.rot_dim : s.rotated;
  return j < rotated / 2 ? s.Plain(j, s.base) / s.factor : 0.0;
}

// The angle of pair j between neighbouring positions, in radians.
inline double Frequency(const RotarySpec& s, std::int64_t j) {
  if (s.kind == "linear") return s.Plain(j, s.base) / s.factor;
  if (s.kind == "ntk") return Ntk(s, j);
  if (s.kind == "dynamic_alpha") return Dynamic(s, j, s.alpha);
  if (s.kind == "dynamic_factor") {
    const double grown = s.factor * double(s.max_position) / double(s.original_max_position);
    return Dynamic(s, j, grown - (s.factor - 1));
  }
  if (s.kind == "yarn") return Yarn(s, j, s.truncate);
  if (s.kind == "deepseek_yarn") return Yarn(s, j, true);
  if (s.kind == "llama3") return Llama3(s, j);
  if (s.kind == "longrope") return s.Plain(j, s.base) / (*s.rescale)[std::size_t(j)];
  if (s.kind == "proportional") return Proportional(s, j);
  return s.Plain(j, s.base);
}

// What every cosine and sine is multiplied by.
inline double Magnitude(const RotarySpec& s) {
  const auto grow = [](double scale, double m) {
    return scale <= 1 ? 1.0 : 0.1 * m * std::log(scale) + 1;
  };
  if (s.kind == "yarn") {
    return (s.apply_yarn_scaling ? grow(s.factor, 1) : 1.0) * s.attn_factor;
  }
  if (s.kind == "deepseek_yarn") {
    return grow(s.factor, s.mscale) / grow(s.factor, s.mscale_all_dim) * s.attn_factor;
  }
  if (s.kind == "longrope") {
    const double scale = double(s.max_position) / double(s.original_max_position);
    if (scale <= 1) return s.attn_factor;
    return std::sqrt(1 + std::log(scale) / std::log(double(s.original_max_position))) *
           s.attn_factor;
  }
  return 1;
}

}  // namespace
}  // namespace anyop::ops
