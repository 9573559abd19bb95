// SPDX-License-Identifier: Apache-2.0
// What tests of attention_backward need: consistent inputs, and the error that f32 allows.
#pragma once
#include <cmath>
#include <string_view>
#include <vector>

#include "optest/optest.h"

namespace anyop::optest {

// Makes y, and lse unless it is empty, what the forward gives for the other arguments.
inline void UseForward(Call& call) {
  Call forward("attention");
  for (const char* name :
       {"query", "key", "value", "query_start_loc", "key_start_loc", "scale", "causal",
        "window_left", "window_right", "softcap", "alibi_slopes", "sinks"}) {
    forward.Set(name, call.argument(name));
  }
  const bool has_lse = call.array("lse").size() > 0;
  forward.Set("return_lse", has_lse);
  Results results = forward.Run();
  call.Set("y", results["y"]);
  if (has_lse) call.Set("lse", results["lse"]);
}

// Bounds of |actual - exact| before the rounding of the store. As in Sum (optest/tolerance.h), each
// sum of K products has (4 + 2 sqrt(K)) u of its terms' absolute values; p and ds carry the errors
// of the scores.
class BackwardBounds {
 public:
  explicit BackwardBounds(const Call& call)
      : call_(call),
        dk_(call.size("dk")),
        dv_(call.size("dv")),
        hq_(call.size("hq")),
        hkv_(call.size("hkv")),
        group_(hq_ / hkv_),
        scale_(call.given("scale") ? std::fabs(call.number("scale")) : 1 / std::sqrt(double(dk_))),
        softcap_(call.number("softcap")),
        causal_(call.integer("causal") != 0),
        left_(call.integer("window_left")),
        right_(call.integer("window_right")),
        dy_(Doubles(call, "dy")),
        query_(Doubles(call, "query")),
        key_(Doubles(call, "key")),
        value_(Doubles(call, "value")),
        y_(Doubles(call, "y")),
        dquery_(std::size_t(call.array("query").size())),
        dkey_(std::size_t(call.array("key").size())),
        dvalue_(std::size_t(call.array("value").size())),
        dsinks_(std::size_t(call.size("hq"))) {
    const Array& starts = call.array("query_start_loc");
    for (std::int64_t s = 0; s + 1 < starts.size(); ++s) AddSequence(s);
  }

  const std::vector<double>& of(std::string_view result) const {
    if (result == "dquery") return dquery_;
    if (result == "dkey") return dkey_;
    return result == "dvalue" ? dvalue_ : dsinks_;
  }

 private:
  struct Value {
    double sum, terms;  // of a dot product, and of its absolute values
  };

  static double Sum(double k) { return (4 + 2 * std::sqrt(k)) * kU; }
  static std::vector<double> Doubles(const Call& call, const char* name) {
    const Array& a = call.array(name);
    std::vector<double> v(std::size_t(a.size()));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = a.Get(std::int64_t(i));
    return v;
  }
  static Value Dot(const std::vector<double>& a, std::int64_t row_a, const std::vector<double>& b,
                   std::int64_t row_b, std::int64_t width) {
    Value v{0, 0};
    for (std::int64_t e = 0; e < width; ++e) {
      const double product = a[std::size_t(row_a * width + e)] * b[std::size_t(row_b * width + e)];
      v.sum += product;
      v.terms += std::fabs(product);
    }
    return v;
  }

  void AddSequence(std::int64_t s) {
    const Array &q = call_.array("query_start_loc"), &k = call_.array("key_start_loc");
    keys_ = k.GetInt(s + 1) - k.GetInt(s);
    queries_ = q.GetInt(s + 1) - q.GetInt(s);
    key_begin_ = k.GetInt(s);
    for (std::int64_t i = 0; i < queries_; ++i) {
      for (std::int64_t h = 0; h < hq_; ++h) {
        AddRow((q.GetInt(s) + i) * hq_ + h, h, i + keys_ - queries_);
      }
    }
  }

  bool IsVisible(std::int64_t distance) const {
    return (!causal_ || distance <= 0) && (left_ < 0 || -distance <= left_) &&
           (right_ < 0 || distance <= right_);
  }

  struct Score {
    std::int64_t row;  // of the key
    double value, error, cap_slope, cap_error;
  };
  Score ScoreOf(std::int64_t row, std::int64_t head, std::int64_t key, double distance) const {
    Score s{key, 0, 0, 1, 0};
    const Value dot = Dot(query_, row, key_, key, dk_);
    const double sign = call_.given("scale") && call_.number("scale") < 0 ? -1 : 1;
    s.value = sign * scale_ * dot.sum;
    s.error = (8 + 2 * std::sqrt(double(dk_))) * kU * scale_ * dot.terms;
    if (softcap_ > 0) {
      const double capped = std::tanh(s.value / softcap_);
      s.cap_slope = 1 - capped * capped;
      s.cap_error = 2 * s.error / softcap_ + 12 * kU;
      s.value = softcap_ * capped;
      s.error += 4 * kU * softcap_;
    }
    if (call_.given("alibi_slopes")) {
      const double bias = call_.array("alibi_slopes").Get(head) * distance;
      s.value += bias;
      s.error += 4 * kU * std::fabs(bias);
    }
    return s;
  }

  // row: of the queries, [tq * hq]
  void AddRow(std::int64_t row, std::int64_t head, std::int64_t position) {
    const double infinity = std::numeric_limits<double>::infinity();
    std::vector<Score> scores;
    double most = 0, sum = call_.given("sinks") ? std::exp(call_.array("sinks").Get(head)) : 0;
    for (std::int64_t j = 0; j < keys_; ++j) {
      if (!IsVisible(j - position)) continue;
      const std::int64_t key = (key_begin_ + j) * hkv_ + head / group_;
      scores.push_back(ScoreOf(row, head, key, double(j - position)));
      most = std::max(most, scores.back().error);
      sum += std::exp(scores.back().value);
    }
    const Array& given = call_.array("lse");
    const std::int64_t tokens = given.dim(1);
    const double lse = tokens ? given.Get(head * tokens + row / hq_) : std::log(sum);
    if (lse == -infinity) return;
    double lse_error = kU * std::fabs(lse);
    if (!tokens) lse_error += most + 4 * kU * (1 + std::fabs(lse)) + 2 * std::sqrt(keys_) * kU;
    Value shared = Dot(dy_, row, y_, row, dv_);
    if (call_.given("dlse") && tokens) {
      const double own = call_.array("dlse").Get(head * tokens + row / hq_);
      shared.sum -= own;
      shared.terms += std::fabs(own);
    }
    if (call_.given("sinks")) {
      const double z = call_.array("sinks").Get(head), p = std::exp(z - lse);
      dsinks_[std::size_t(head)] +=
          p * (lse_error + 4 * kU + kU * std::fabs(z) + Sum(double(queries_ + dv_))) * shared.terms;
    }
    for (const Score& s : scores) AddPair(row, s, shared, lse, lse_error);
  }

  void AddPair(std::int64_t row, const Score& s, Value shared, double lse, double lse_error) {
    const double p = std::exp(s.value - lse);
    const double relative = s.error + lse_error + kU * std::fabs(s.value) + 6 * kU;
    const double p_error = p * relative + 0x1p-126;  // an exp below 2^-126 has few bits
    const Value dp = Dot(dy_, row, value_, s.row, dv_);
    const double g = std::fabs(dp.sum - shared.sum);
    const double g_error = (Sum(double(dv_)) + kU) * (dp.terms + shared.terms);
    const double slope = s.cap_slope * scale_, ds = p * g * slope;
    const double ds_error = 4 * kU * ds + p_error * g * slope + (p + p_error) * g_error * slope +
                            p * g * scale_ * s.cap_error;
    const double rows = double(queries_ * group_);
    Add(&dquery_, row, ds_error + Sum(double(keys_)) * ds, key_, s.row, dk_);
    Add(&dkey_, s.row, ds_error + Sum(rows) * ds, query_, row, dk_);
    Add(&dvalue_, s.row, p_error + Sum(rows) * p, dy_, row, dv_);
  }
  static void Add(std::vector<double>* to, std::int64_t row, double factor,
                  const std::vector<double>& x, std::int64_t from, std::int64_t width) {
    for (std::int64_t e = 0; e < width; ++e) {
      (*to)[std::size_t(row * width + e)] += factor * std::fabs(x[std::size_t(from * width + e)]);
    }
  }

  const Call& call_;
  const std::int64_t dk_, dv_, hq_, hkv_, group_;
  const double scale_, softcap_;
  const bool causal_;
  const std::int64_t left_, right_;  // the window
  const std::vector<double> dy_, query_, key_, value_, y_;
  std::int64_t keys_ = 0, queries_ = 0, key_begin_ = 0;
  std::vector<double> dquery_, dkey_, dvalue_, dsinks_;
};

}  // namespace anyop::optest
