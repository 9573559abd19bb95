// SPDX-License-Identifier: Apache-2.0
// The step in double, token by token, rounding to the dtype of x where the operators that it is
// made of round. Caches are f64.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "anyop/op.h"

namespace anyop::ops::reference {

using Row = std::vector<double>;

struct Step {
  const Tensor &x, &positions, &slot_mapping, &block_table, &seq_lens, &query_start_loc, &cos_sin;
  const Tensor &w_q_a, &q_norm, &w_q_b, &w_kv_a, &kv_norm, &w_uk;
  const Tensor &w_iq, &w_ik, &ik_weight, &ik_bias, &w_iw, &kv_cache, &rope_cache, &index_cache;
  std::int64_t top;
  double scale, eps, index_eps;
  bool is_gptj, is_index_gptj;
};

// A key that a token sees: its position, its row in the caches, the indexer's score, and the sum of
// the score's terms without their signs.
struct SeenKey {
  std::int64_t position, block, offset;
  double score, terms;
};

class StepReference {
 public:
  explicit StepReference(const Step& step) : s(step) {
    for (std::int64_t i = 0; i < s.x.dim(0); ++i) Store(i);
  }

  // q_latent and the rotated part of every head, one after the other: [h][c + r].
  std::vector<Row> Queries(std::int64_t token) const {
    const std::int64_t h = s.w_uk.dim(0), dn = s.w_uk.dim(1), c = s.w_uk.dim(2),
                       r = s.cos_sin.dim(1);
    const Row q = Linear(Low(token), s.w_q_b);
    std::vector<Row> queries(static_cast<std::size_t>(h));
    for (std::int64_t head = 0; head < h; ++head) {
      Row& query = queries[std::size_t(head)];
      const double* own = q.data() + head * (dn + r);
      for (std::int64_t e = 0; e < c; ++e) {
        double sum = 0;
        for (std::int64_t k = 0; k < dn; ++k) {
          sum += own[k] * Read(s.w_uk, head * s.w_uk.stride(0) + k * s.w_uk.stride(1) + e);
        }
        query.push_back(Round(sum));
      }
      query.insert(query.end(), own + dn, own + dn + r);
      Rotate(query.data() + c, token, s.is_gptj);
    }
    return queries;
  }

  // In rising order of position.
  std::vector<SeenKey> Keys(std::int64_t token) const {
    std::vector<SeenKey> keys;
    std::int64_t sequence = 0;
    const std::int64_t sequences = s.seq_lens.dim(0), bs = s.kv_cache.dim(1);
    while (sequence < sequences && ReadIndex(s.query_start_loc, sequence + 1) <= token) ++sequence;
    if (sequence == sequences) return keys;
    const std::int64_t length = ReadIndex(s.seq_lens, sequence);
    // The last query stands at the last key.
    const std::int64_t last = length - (ReadIndex(s.query_start_loc, sequence + 1) - token);
    const Row query = IndexQueries(token), weights = Linear(RowOf(s.x, token), s.w_iw, false);
    for (std::int64_t j = 0; j <= last; ++j) {
      const std::int64_t block =
          ReadIndex(s.block_table, sequence * s.block_table.stride(0) + j / bs);
      if (block < 0) continue;
      SeenKey key{j, block, j % bs, 0, 0};
      Score(query, weights, &key);
      keys.push_back(key);
    }
    return keys;
  }

  // The `top` of the highest scores, of equal ones the lower position.
  std::vector<SeenKey> Chosen(std::int64_t token) const {
    std::vector<SeenKey> keys = Keys(token);
    std::stable_sort(keys.begin(), keys.end(),
                     [](const SeenKey& a, const SeenKey& b) { return a.score > b.score; });
    keys.resize(std::min(keys.size(), std::size_t(s.top)));
    return keys;
  }

  const Step s;

  double Latent(const SeenKey& k, std::int64_t e) const { return At(s.kv_cache, k, e); }
  double Product(const Row& query, const SeenKey& k) const {
    const std::int64_t c = s.kv_cache.dim(2);
    double sum = 0;
    for (std::int64_t e = 0; e < std::int64_t(query.size()); ++e) {
      sum += query[std::size_t(e)] * (e < c ? At(s.kv_cache, k, e) : At(s.rope_cache, k, e - c));
    }
    return sum;
  }

 private:
  double Round(double v) const {
    switch (s.x.type()) {
      case DType::kF32:
        return float(v);
      case DType::kF16:
        return double(float(F16(float(v))));
      case DType::kBF16:
        return double(float(BF16(float(v))));
      default:
        return v;
    }
  }
  static double At(const Tensor& cache, const SeenKey& k, std::int64_t e) {
    return Read(cache, k.block * cache.stride(0) + k.offset * cache.stride(1) + e);
  }
  static Row RowOf(const Tensor& x, std::int64_t i) {
    Row row;
    for (std::int64_t e = 0; e < x.dim(1); ++e) row.push_back(Read(x, i * x.stride(0) + e));
    return row;
  }
  Row Linear(const Row& x, const Tensor& weight, bool is_rounded = true) const {
    Row y;
    for (std::int64_t j = 0; j < weight.dim(0); ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < x.size(); ++k) {
        sum += x[k] * Read(weight, j * weight.stride(0) + std::int64_t(k));
      }
      y.push_back(is_rounded ? Round(sum) : sum);
    }
    return y;
  }
  // (x - mean) / sqrt(variance + eps) * weight + bias; bias null: the mean counts as 0.
  Row Normed(Row x, const Tensor& weight, const Tensor* bias, double eps) const {
    double mean = 0, squares = 0;
    for (const double v : x) mean += bias ? v / double(x.size()) : 0;
    for (const double v : x) squares += (v - mean) * (v - mean) / double(x.size());
    for (std::size_t e = 0; e < x.size(); ++e) {
      x[e] = Round((x[e] - mean) / std::sqrt(squares + eps) * Read(weight, std::int64_t(e)) +
                   (bias ? Read(*bias, std::int64_t(e)) : 0));
    }
    return x;
  }
  void Rotate(double* z, std::int64_t token, bool is_gptj) const {
    const std::int64_t position = ReadIndex(s.positions, token), q = s.cos_sin.dim(1) / 2;
    if (position < 0) return;
    const Row from(z, z + 2 * q);
    for (std::int64_t j = 0; j < q; ++j) {
      const std::int64_t a = is_gptj ? 2 * j : j, b = is_gptj ? 2 * j + 1 : q + j;
      const double cosine = Read(s.cos_sin, position * s.cos_sin.stride(0) + j);
      const double sine = Read(s.cos_sin, position * s.cos_sin.stride(0) + q + j);
      z[a] = Round(from[std::size_t(a)] * cosine - from[std::size_t(b)] * sine);
      z[b] = Round(from[std::size_t(b)] * cosine + from[std::size_t(a)] * sine);
    }
  }

  Row Low(std::int64_t token) const {
    return Normed(Linear(RowOf(s.x, token), s.w_q_a), s.q_norm, nullptr, s.eps);
  }
  Row IndexQueries(std::int64_t token) const {
    Row query = Linear(Low(token), s.w_iq);
    for (std::int64_t i = 0; i < s.w_iw.dim(0); ++i) {
      Rotate(query.data() + i * s.w_ik.dim(0), token, s.is_index_gptj);
    }
    return query;
  }
  void Store(std::int64_t token) const {
    const std::int64_t slot = ReadIndex(s.slot_mapping, token), c = s.kv_norm.dim(0);
    if (slot < 0) return;
    const Row x = RowOf(s.x, token), kv = Linear(x, s.w_kv_a);
    Row key(kv.begin() + c, kv.end());
    Rotate(key.data(), token, s.is_gptj);
    Row index = Normed(Linear(x, s.w_ik), s.ik_weight, &s.ik_bias, s.index_eps);
    Rotate(index.data(), token, s.is_index_gptj);
    Put(s.kv_cache, slot, Normed(Row(kv.begin(), kv.begin() + c), s.kv_norm, nullptr, s.eps));
    Put(s.rope_cache, slot, key);
    Put(s.index_cache, slot, index);
  }
  static void Put(const Tensor& cache, std::int64_t slot, const Row& row) {
    const std::int64_t bs = cache.dim(1);
    double* to = cache.base<double>() + slot / bs * cache.stride(0) + slot % bs * cache.stride(1);
    std::copy(row.begin(), row.end(), to);
  }
  void Score(const Row& query, const Row& weights, SeenKey* key) const {
    const std::int64_t di = s.w_ik.dim(0);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      double dot = 0, terms = 0;
      for (std::int64_t e = 0; e < di; ++e) {
        const double product =
            query[i * std::size_t(di) + std::size_t(e)] * At(s.index_cache, *key, e);
        dot += product;
        terms += std::abs(product);
      }
      key->score += weights[i] * std::max(dot, 0.0);
      key->terms += std::abs(weights[i]) * terms;
    }
  }
};

}  // namespace anyop::ops::reference
