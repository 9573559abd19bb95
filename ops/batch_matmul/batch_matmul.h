// SPDX-License-Identifier: Apache-2.0
// The kernels of batch_matmul and batch_matmul_backward, for one math type each.
#pragma once
#include <cstdint>
#include <string_view>

#include "anyop/op.h"
#include "ops/common/claim.h"
#include "ops/common/gemm/chunks.h"
#include "ops/common/gemm/few.h"
#include "ops/common/gemm/rows.h"
#include "ops/common/gemm/weight_tiles.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Products of fewer multiply-adds than this, about 80 us, are not shared by threads.
inline constexpr std::int64_t kSmallProduct = 1 << 23;

// Of one product.
template <class M, class N>
constexpr N MatrixBytes(const N& threads, const N& rows, const N& inner, const N& columns) {
  const N chunks = ChunksWorkspace<M, N>(threads, rows, inner, columns).bytes();
#if defined(__AMX_BF16__)
  if (kIsAmx<M>) return Max(chunks, ColumnsWorkspace<N>(rows, inner).bytes());
#endif
  return chunks;
}

// For products of `work` multiply-adds: what one takes by all threads, and if it is small what as
// many take as there are threads.
template <class M, class N>
struct BatchWorkspace : Workspace<N> {
  N single_bytes;                 // of a product by one thread
  Part<std::int64_t, N> counter;  // one: the next product
  Part<char, N> products;         // [threads][single_bytes] or one
  constexpr BatchWorkspace(N threads, N work, N rows, N inner, N columns)
      : single_bytes(MatrixBytes<M, N>(N(1), rows, inner, columns)),
        counter(this->template Add<std::int64_t>(N(1))),
        products(this->template Add<char>(
            Max(MatrixBytes<M, N>(threads, rows, inner, columns),
                (N(1) - Min(N(1), work / N(kSmallProduct))) * threads * single_bytes))) {}
};
template <class M>
constexpr SizeText BatchMatmulBytes() {
  const SizeText m = "m", n = "n", k = "k";
  return BatchWorkspace<M, SizeText>("threads", m * n * k, m, k, n).bytes();
}
// Each dimension is one of m, n and k, by form and factor.
template <class M>
constexpr SizeText BatchMatmulBackwardBytes() {
  const SizeText m = "m", n = "n", k = "k", most = Max(Max(m, n), k);
  return BatchWorkspace<M, SizeText>("threads", m * n * k, most, most, most).bytes();
}

// Which factor is transposed: z = x y, x y^T or x^T y.
enum class Form { kNN, kNT, kTN };

inline Form ParseForm(std::string_view form) {
  return form == "nn" ? Form::kNN : form == "nt" ? Form::kNT : Form::kTN;
}

// Matrix i of a batch.
inline Tensor MatrixOf(const Tensor& batch, std::int64_t i) {
  Tensor matrix = batch;
  matrix.byte_offset += std::uint64_t(i * batch.stride(0) * Bytes(batch.type()));
  matrix.ndim = 2;
  ++matrix.shape;
  if (matrix.strides) ++matrix.strides;
  return matrix;
}

// z = x y for matrices, z not empty.
template <class M>
[[gnu::noinline]] void MultiplyMatrices(const Context& ctx, Form form, const Tensor& x,
                                        const Tensor& y, const Tensor& z) {
  using T = typename M::Weight;
  const std::int64_t k = form == Form::kTN ? x.dim(0) : x.dim(1);
  const DenseProduct<T> p{{nullptr, z, z.dim(1), Activation::kNone}, {x}, z.dim(0), k};
  // The ways differ in the order of their sums, so batch-invariant mode keeps to one.
  const bool is_few = !ctx.batch_invariant() && p.rows <= (form == Form::kNT ? kMaxRows : kFewRows);
  if (form == Form::kNT) {
#if defined(__AMX_BF16__)
    if (kIsAmx<M> && p.n >= kPanel && !(is_few && p.rows < kTiledRows)) {
      return MultiplyByTiles(ctx, p, y);
    }
#endif
    if (is_few) return MultiplyByRows<M>(ctx, p, y);
    const RightColumns<T> right{y.base<const T>(), y.stride(0)};
    return MultiplyChunks<M>(ctx, p, LeftRows<T>{Rows<T>(x)}, right);
  }
  if (is_few) {
    const std::int64_t row = form == Form::kTN ? 1 : x.stride(0);
    const std::int64_t step = form == Form::kTN ? x.stride(0) : 1;
    const auto *left = x.base<const T>(), *right = y.base<const T>();
    return MultiplyFewRows<T>(ctx, {p, left, row, step, right, y.stride(0)});
  }
  const RightRows<T> right{Rows<T>(y)};
  if (form == Form::kTN) return MultiplyChunks<M>(ctx, p, LeftColumns<T>{Rows<T>(x)}, right);
  MultiplyChunks<M>(ctx, p, LeftRows<T>{Rows<T>(x)}, right);
}

// z = x y for batches of matrices. Small products run whole, several at once.
template <class M>
void MultiplyBatch(const Context& ctx, Form form, const Tensor& x, const Tensor& y,
                   const Tensor& z) {
  if (z.size() == 0) return;
  const std::int64_t batch = z.dim(0), k = form == Form::kTN ? x.dim(1) : x.dim(2);
  const std::int64_t work = z.dim(1) * z.dim(2) * k;
  const auto multiply = [&](const Context& inner, std::int64_t i) {
    MultiplyMatrices<M>(inner, form, MatrixOf(x, i), MatrixOf(y, i), MatrixOf(z, i));
  };
  const BatchWorkspace<M, std::int64_t> parts(ThreadsOf(ctx), work, z.dim(1), k, z.dim(2));
  const Placed placed(ctx, parts);
  char* products = placed[parts.products];
  Context inner = ctx;
  if (batch == 1 || work >= kSmallProduct) {
    inner.workspace = products;
    inner.workspace_bytes = std::uint64_t(parts.products.count);
    for (std::int64_t i = 0; i < batch; ++i) multiply(inner, i);
    return;
  }
  inner.threads = 1;
  inner.workspace_bytes = std::uint64_t(parts.single_bytes);
  const double ns = double(batch) * (double(work) / 50 + 100);
  ClaimItems(ctx, placed[parts.counter], batch, ns, [&](std::int64_t i, std::int64_t slot) {
    Context own = inner;
    own.workspace = products + slot * parts.single_bytes;
    multiply(own, i);
  });
}

#define ANYOP_MULTIPLY_BATCH(M) \
  template void MultiplyBatch<M>(const Context&, Form, const Tensor&, const Tensor&, const Tensor&)

template <class M>
void RunBatchMatmul(const Context& ctx, const Tensor& x, const Tensor& y, std::string_view form,
                    const Tensor& z) {
  MultiplyBatch<M>(ctx, ParseForm(form), x, y, z);
}

template <class M>
void RunBatchMatmulBackward(const Context& ctx, const Tensor& dz, const Tensor& x, const Tensor& y,
                            std::string_view word, const Tensor* dx, const Tensor* dy) {
  const Form form = ParseForm(word);
  if (form == Form::kNN) {
    if (dx) MultiplyBatch<M>(ctx, Form::kNT, dz, y, *dx);
    if (dy) MultiplyBatch<M>(ctx, Form::kTN, x, dz, *dy);
  } else if (form == Form::kNT) {
    if (dx) MultiplyBatch<M>(ctx, Form::kNN, dz, y, *dx);
    if (dy) MultiplyBatch<M>(ctx, Form::kTN, dz, x, *dy);
  } else {
    if (dx) MultiplyBatch<M>(ctx, Form::kNT, y, dz, *dx);
    if (dy) MultiplyBatch<M>(ctx, Form::kNN, x, dz, *dy);
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
