// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

using Index = std::int64_t;

struct Filter {
  const Tensor& x;
  const Tensor& weight;
  const Tensor* bias;
  const Tensor* state;
  bool has_silu;
  const Tensor& y;

  // One channel of tokens [begin, end).
  void Run(Index begin, Index end, Index slot, bool has_state, Index ch) const {
    const Index k = weight.dim(1), rows = state ? state->dim(1) : k - 1;
    std::vector<double> all;  // the state or zeros, then the tokens
    for (Index j = 0; j < rows; ++j) {
      all.push_back(state && has_state ? *state->at<double>(slot, j, ch) : 0);
    }
    for (Index i = begin; i < end; ++i) {
      all.push_back(Read(x, i * x.stride(0) + ch));
      double sum = bias ? Read(*bias, ch) : 0;
      for (Index a = 0; a < k; ++a) {
        sum += Read(weight, ch * weight.stride(0) + a) * all[all.size() - std::size_t(k - a)];
      }
      *y.at<double>(i, ch) = has_silu ? sum / (1 + std::exp(-sum)) : sum;
    }
    for (Index j = 0; state && j < rows; ++j) {
      *state->at<double>(slot, j, ch) = all[all.size() - std::size_t(rows - j)];
    }
  }
  void Skip(Index begin, Index end) const {
    for (Index i = begin; i < end; ++i) {
      for (Index ch = 0; ch < x.dim(1); ++ch) *y.at<double>(i, ch) = 0;
    }
  }
};

void Run(const Context&, const Tensor& x, const Tensor& weight, const Tensor* bias,
         const Tensor* conv_state, const Tensor& query_start_loc, const Tensor* state_indices,
         const Tensor* has_initial_state, std::string_view activation, const Tensor& y) {
  const Filter filter{x, weight, bias, conv_state, activation == "silu", y};
  const Index b = query_start_loc.dim(0) - 1;
  for (Index s = 0; s < b; ++s) {
    const Index begin = ReadIndex(query_start_loc, s), end = ReadIndex(query_start_loc, s + 1);
    const Index slot = state_indices ? ReadIndex(*state_indices, s) : s;
    const bool has_state = has_initial_state && Read(*has_initial_state, s) != 0;
    if (slot < 0) filter.Skip(begin, end);
    for (Index ch = 0; slot >= 0 && ch < x.dim(1); ++ch) {
      filter.Run(begin, end, slot, has_state, ch);
    }
  }
  filter.Skip(ReadIndex(query_start_loc, b), x.dim(0));
}

void RunUpdate(const Context&, const Tensor& x, const Tensor& weight, const Tensor* bias,
               const Tensor& conv_state, const Tensor* state_indices, std::string_view activation,
               const Tensor& y) {
  const Filter filter{x, weight, bias, &conv_state, activation == "silu", y};
  for (Index i = 0; i < x.dim(0); ++i) {
    const Index slot = state_indices ? ReadIndex(*state_indices, i) : i;
    if (slot < 0) filter.Skip(i, i + 1);
    for (Index ch = 0; slot >= 0 && ch < x.dim(1); ++ch) filter.Run(i, i + 1, slot, true, ch);
  }
}

}  // namespace

extern constinit const Reference causal_conv1d_reference{.op = "causal_conv1d",
                                                         .run = Bind<&Run>()};
extern constinit const Reference causal_conv1d_update_reference{.op = "causal_conv1d_update",
                                                                .run = Bind<&RunUpdate>()};

}  // namespace anyop::ops
