// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "anyop/op.h"
#include "ops/common/elementwise/reference_gelu.h"

namespace anyop::ops {
namespace {

using Index = std::int64_t;
using Row = std::vector<double>;

// What all four operators are given.
struct Moe {
  const Tensor &x, &weights, &ids;
  const Tensor *b13, *b2;
  std::string_view activation;
  std::optional<float> limit;
  double alpha, beta;
  std::string_view order;
  bool is_scaled;
  Index f;
  const Tensor& y;
};

double Round(double value, DType dtype) {
  if (dtype == DType::kBF16) return double(float(BF16(float(value))));
  if (dtype == DType::kF16) return double(float(F16(float(value))));
  return double(float(value));
}

double Act(const Moe& moe, double g, double u) {
  const auto sigma = [](double z) { return 1 / (1 + std::exp(-z)); };
  if (moe.activation == "silu") return g * sigma(g) * u;
  if (moe.activation == "gelu") return GeluValue(g, "none") * u;
  if (moe.activation == "gelu_tanh") return GeluValue(g, "tanh") * u;
  if (moe.limit && g > *moe.limit) g = *moe.limit;
  if (moe.limit && u > *moe.limit) u = *moe.limit;
  if (moe.limit && u < -*moe.limit) u = -*moe.limit;
  return g * sigma(moe.alpha * g) * (u + moe.beta);
}

// A row as bytes; the steps in f32 decide which byte it is. Returns the scale.
double Quantize(Row& row) {
  float largest = 0;
  for (const double v : row) largest = std::fmax(largest, float(std::fabs(v)));
  for (double& v : row) {
    const float scaled = float(v) * (127 / largest);
    v = std::isnan(scaled) ? 0
                           : double(std::nearbyint(std::fmax(-127.0f, std::fmin(scaled, 127.0f))));
  }
  return largest == 0 ? 1 : double(largest / 127);
}

// first(g, j, l) and second(g, j, l) are the elements of w13 and w2; of_first(g, j) and
// of_second(g, j) their scales, for bytes.
template <class First, class Second, class OfFirst, class OfSecond>
void Run(const Moe& moe, bool is_int8, First&& first, Second&& second, OfFirst&& of_first,
         OfSecond&& of_second) {
  const Index d = moe.x.dim(1), f = moe.f;
  const auto product = [&](Row row, Index n, const Tensor* bias, Index g, auto&& weight,
                           auto&& scale) {
    const double of_row = is_int8 ? Quantize(row) : 1;
    Row sums;
    for (Index j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < row.size(); ++l) sum += row[l] * weight(g, j, Index(l));
      sums.push_back(sum * of_row * scale(g, j) +
                     (bias ? Read(*bias, g * bias->stride(0) + j) : 0));
    }
    return sums;
  };
  for (Index i = 0; i < moe.x.dim(0); ++i) {
    std::fill_n(moe.y.at<double>(i), d, 0.0);
    for (Index a = 0; a < moe.ids.dim(1); ++a) {
      const Index g = ReadIndex(moe.ids, i * moe.ids.stride(0) + a);
      if (g < 0) continue;
      const double weight = Read(moe.weights, i * moe.weights.stride(0) + a);
      Row row;
      for (Index j = 0; j < d; ++j) {
        const double v = Read(moe.x, i * moe.x.stride(0) + j);
        row.push_back(moe.is_scaled ? Round(v * weight, moe.x.type()) : v);
      }
      const Row z = product(row, 2 * f, moe.b13, g, first, of_first);
      Row q;
      for (Index j = 0; j < f; ++j) {
        const bool halves = moe.order == "halves";
        const double gate = z[std::size_t(halves ? j : 2 * j)];
        const double up = z[std::size_t(halves ? f + j : 2 * j + 1)];
        const double value = Act(moe, gate, up);
        q.push_back(is_int8 ? value : Round(value, moe.x.type()));
      }
      const Row o = product(q, d, moe.b2, g, second, of_second);
      for (Index j = 0; j < d; ++j) {
        *moe.y.at<double>(i, j) += (moe.is_scaled ? 1 : weight) * o[std::size_t(j)];
      }
    }
  }
}

double ReadWeight(const Tensor& weight, Index g, Index j, Index l) {
  return Read(weight, g * weight.stride(0) + j * weight.stride(1) + l);
}
double ReadPacked(const Tensor& packed, Index g, Index j, Index l, Index width) {
  const Index panel = g * packed.dim(1) + j / 32;
  return Read(packed, ((panel * packed.dim(2) + l / width) * 32 + j % 32) * width + l % width);
}
double One(Index, Index) { return 1; }

void Floats(const Context&, const Tensor& x, const Tensor& w13, const Tensor& w2,
            const Tensor& weights, const Tensor& ids, const Tensor* b13, const Tensor* b2,
            std::string_view activation, std::optional<float> limit, double alpha, double beta,
            std::string_view order, bool is_scaled, const Tensor& y) {
  const Moe moe{x,     weights, ids,   b13,       b2,        activation, limit,
                alpha, beta,    order, is_scaled, w2.dim(2), y};
  Run(
      moe, false, [&](Index g, Index j, Index l) { return ReadWeight(w13, g, j, l); },
      [&](Index g, Index j, Index l) { return ReadWeight(w2, g, j, l); }, One, One);
}
void FloatsPacked(const Context&, const Tensor& x, const Tensor& w13, const Tensor& w2,
                  Index features, const Tensor& weights, const Tensor& ids, const Tensor* b13,
                  const Tensor* b2, std::string_view activation, std::optional<float> limit,
                  double alpha, double beta, std::string_view order, bool is_scaled,
                  const Tensor& y) {
  const Moe moe{x,     weights, ids,   b13,       b2,       activation, limit,
                alpha, beta,    order, is_scaled, features, y};
  Run(
      moe, false, [&](Index g, Index j, Index l) { return ReadPacked(w13, g, j, l, 2); },
      [&](Index g, Index j, Index l) { return ReadPacked(w2, g, j, l, 2); }, One, One);
}
void Int8(const Context&, const Tensor& x, const Tensor& w13, const Tensor& w13_scale,
          const Tensor& w2, const Tensor& w2_scale, const Tensor& weights, const Tensor& ids,
          const Tensor* b13, const Tensor* b2, std::string_view activation,
          std::optional<float> limit, double alpha, double beta, std::string_view order,
          bool is_scaled, const Tensor& y) {
  const Moe moe{x,     weights, ids,   b13,       b2,        activation, limit,
                alpha, beta,    order, is_scaled, w2.dim(2), y};
  Run(
      moe, true, [&](Index g, Index j, Index l) { return ReadWeight(w13, g, j, l); },
      [&](Index g, Index j, Index l) { return ReadWeight(w2, g, j, l); },
      [&](Index g, Index j) { return Read(w13_scale, g * w13_scale.stride(0) + j); },
      [&](Index g, Index j) { return Read(w2_scale, g * w2_scale.stride(0) + j); });
}
void Int8Packed(const Context&, const Tensor& x, const Tensor& w13, const Tensor& w13_scale,
                const Tensor& w2, const Tensor& w2_scale, Index features, const Tensor& weights,
                const Tensor& ids, const Tensor* b13, const Tensor* b2, std::string_view activation,
                std::optional<float> limit, double alpha, double beta, std::string_view order,
                bool is_scaled, const Tensor& y) {
  const Moe moe{x,     weights, ids,   b13,       b2,       activation, limit,
                alpha, beta,    order, is_scaled, features, y};
  Run(
      moe, true, [&](Index g, Index j, Index l) { return ReadPacked(w13, g, j, l, 4); },
      [&](Index g, Index j, Index l) { return ReadPacked(w2, g, j, l, 4); },
      [&](Index g, Index j) { return Read(w13_scale, g * w13_scale.stride(0) + j); },
      [&](Index g, Index j) { return Read(w2_scale, g * w2_scale.stride(0) + j); });
}

}  // namespace

extern constinit const Reference fused_moe_reference{.op = "fused_moe", .run = Bind<&Floats>()};
extern constinit const Reference fused_moe_packed_reference{.op = "fused_moe_packed",
                                                            .run = Bind<&FloatsPacked>()};
extern constinit const Reference fused_moe_int8_reference{.op = "fused_moe_int8",
                                                          .run = Bind<&Int8>()};
extern constinit const Reference fused_moe_int8_packed_reference{.op = "fused_moe_int8_packed",
                                                                 .run = Bind<&Int8Packed>()};

}  // namespace anyop::ops
