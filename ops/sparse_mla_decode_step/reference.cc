// SPDX-License-Identifier: Apache-2.0
#include "ops/sparse_mla_decode_step/reference.h"

#include <string_view>

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, const Tensor& positions, const Tensor& slot_mapping,
         const Tensor& block_table, const Tensor& seq_lens, const Tensor& query_start_loc,
         const Tensor& cos_sin_cache, const Tensor& w_q_a, const Tensor& q_norm,
         const Tensor& w_q_b, const Tensor& w_kv_a, const Tensor& kv_norm, const Tensor& w_uk,
         const Tensor& w_iq, const Tensor& w_ik, const Tensor& ik_weight, const Tensor& ik_bias,
         const Tensor& w_iw, const Tensor& kv_cache, const Tensor& rope_cache,
         const Tensor& index_cache, std::int64_t top, double scale, double eps, double index_eps,
         std::string_view style, std::string_view index_style, const Tensor& y) {
  const reference::StepReference step({x,
                                       positions,
                                       slot_mapping,
                                       block_table,
                                       seq_lens,
                                       query_start_loc,
                                       cos_sin_cache,
                                       w_q_a,
                                       q_norm,
                                       w_q_b,
                                       w_kv_a,
                                       kv_norm,
                                       w_uk,
                                       w_iq,
                                       w_ik,
                                       ik_weight,
                                       ik_bias,
                                       w_iw,
                                       kv_cache,
                                       rope_cache,
                                       index_cache,
                                       top,
                                       scale,
                                       eps,
                                       index_eps,
                                       style == "gptj",
                                       index_style == "gptj"});
  for (std::int64_t token = 0; token < y.dim(0); ++token) {
    const std::vector<reference::SeenKey> keys = step.Chosen(token);
    const std::vector<reference::Row> queries = step.Queries(token);
    for (std::int64_t h = 0; h < y.dim(1); ++h) {
      double* out = y.at<double>(token, h);
      std::fill_n(out, y.dim(2), 0.0);
      reference::Row scores;
      double most = -HUGE_VAL, total = 0;
      for (const auto& key : keys) {
        scores.push_back(scale * step.Product(queries[std::size_t(h)], key));
        most = std::max(most, scores.back());
      }
      for (double& score : scores) total += score = std::exp(score - most);
      for (std::size_t j = 0; j < keys.size(); ++j) {
        for (std::int64_t e = 0; e < y.dim(2); ++e) {
          out[e] += scores[j] / total * step.Latent(keys[j], e);
        }
      }
    }
  }
}

}  // namespace

extern constinit const Reference sparse_mla_decode_step_reference{.op = "sparse_mla_decode_step",
                                                                  .run = Bind<&Run>()};

}  // namespace anyop::ops
