// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "anyop/op.h"
#include "ops/common/selection/maxima.h"
#include "ops/common/selection/selection.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
namespace {

// The k largest of x[d], by rising index; equals at the border from the front. wide: d floats;
// keys: d of them; both scratch. indices: k of them.
template <class T>
void SelectTopK(const T* x, std::int64_t d, std::int64_t k, float* wide, std::uint32_t* keys,
                std::int64_t* indices) {
  ForLanes(d, [&](std::int64_t i, auto n) { StoreN(wide + i, LoadN(x + i, n), n); });
  TakeLargest(wide, d, k, keys, indices);
}

// Cycles: a pass per maximum, or some for every element of the row.
constexpr bool IsWorthMaxima(std::int64_t d, std::int64_t k) {
  return k < 64 && k * (2 * d / kLanes + 40) < 2 * d + 600;
}

template <class T>
void TopKRow(const T* x, std::int64_t d, std::int64_t k, bool sorted, float* wide,
             std::uint32_t* keys, T* values, std::int64_t* indices) {
  bool is_sorted = false;
  if (IsWorthMaxima(d, k)) {
    ForLanes(d, [&](std::int64_t i, auto n) { StoreN(wide + i, LoadN(x + i, n), n); });
    is_sorted = TakeMaxima(wide, d, k, indices) == k;
    if (is_sorted && !sorted) std::sort(indices, indices + k);
  }
  if (!is_sorted) SelectTopK(x, d, k, wide, keys, indices);
  if (sorted && !is_sorted) {
    std::sort(indices, indices + k, [wide](std::int64_t a, std::int64_t b) {
      const std::uint32_t key_a = OrderedKey(wide[a]), key_b = OrderedKey(wide[b]);
      return key_a != key_b ? key_a > key_b : a < b;
    });
  }
  for (std::int64_t i = 0; i < k; ++i) values[i] = x[indices[i]];
}

// For the rows of d elements that run at once.
template <class N>
struct TopKWorkspace : Workspace<N> {
  Part<float, N> wide;          // [rows][d]
  Part<std::uint32_t, N> keys;  // [rows][d]
  constexpr TopKWorkspace(N rows, N d)
      : wide(this->template Add<float>(rows * d)),
        keys(this->template Add<std::uint32_t>(rows * d)) {}
};
constexpr SizeText TopKBytes() {
  return TopKWorkspace<SizeText>(Min(SizeText("rows(x)"), "threads"), "d").bytes();
}

template <class T>
void TopKRows(const Context& ctx, const Tensor& x, std::int64_t k, bool sorted,
              const Tensor& values, const Tensor& indices) {
  const std::int64_t rows = x.rows(), d = x.row_size();
  if (k == 0) return;
  // One part per thread, each with its own memory.
  const std::int64_t parts = std::min(ThreadsOf(ctx), rows);
  const TopKWorkspace<std::int64_t> layout(parts, d);
  const Placed placed(ctx, layout);
  const std::int64_t grain = 2000 / (d * (rows / std::max<std::int64_t>(parts, 1)) + 1) + 1;
  ctx.ParallelFor(parts, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      float* wide = placed[layout.wide] + part * d;
      std::uint32_t* keys = placed[layout.keys] + part * d;
      for (std::int64_t r = part; r < rows; r += parts) {
        TopKRow(x.base<const T>() + x.row_offset(r), d, k, sorted, wide, keys,
                values.base<T>() + values.row_offset(r),
                indices.base<std::int64_t>() + indices.row_offset(r));
      }
    }
  });
}

void RunTopK(const Context& ctx, const Tensor& x, std::int64_t k, bool sorted, const Tensor& values,
             const Tensor& indices) {
  switch (x.type()) {
    case DType::kF32:
      return TopKRows<float>(ctx, x, k, sorted, values, indices);
    case DType::kF16:
      return TopKRows<F16>(ctx, x, k, sorted, values, indices);
    default:
      return TopKRows<BF16>(ctx, x, k, sorted, values, indices);
  }
}

}  // namespace

ANYOP_KERNEL(top_k){.workspace = kWorkspace<&TopKBytes>, .run = Bind<&RunTopK>()};

}  // namespace anyop::ops
