// SPDX-License-Identifier: Apache-2.0
// The kernels of grouped_linear_backward.
#pragma once
#include <cstdint>
#include <cstring>

#include "ops/common/elementwise/elementwise.h"
#include "ops/common/gemm/backward.h"
#include "ops/common/grouped/call.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Of a group of any size: one of fewer rows may have longer chunks, so the room for chunks of the
// longest is beside what a group of all rows takes.
constexpr SizeText GroupedBackwardBytes() {
  const SizeText threads = "threads", m = "m", n = "n", k = "k";
  const auto chunks = [&](const SizeText& rows, const SizeText& inner) {
    return ChunksWorkspace<WidestMath, SizeText>(threads, rows, inner, k).bytes();
  };
  return Max(chunks(m, n), chunks(n, m) + chunks(n, Min(m, SizeText(kInner))));
}

// A part of a tensor along its first dimension: rows [first, first + count) of [m, n], or one
// element of [e, n, k] or [e, n].
class Slice {
 public:
  static Slice Rows(const Tensor& whole, std::int64_t first, std::int64_t count) {
    Slice slice(whole, first, 0);
    slice.shape_[0] = count;
    return slice;
  }
  static Slice At(const Tensor& whole, std::int64_t i) { return Slice(whole, i, 1); }
  Slice(const Slice& other) : Slice(other.tensor_, 0, 0) {}

  const Tensor& tensor() const { return tensor_; }

 private:
  Slice(const Tensor& whole, std::int64_t first, int dropped) : tensor_(whole) {
    tensor_.ndim = whole.rank() - dropped;
    for (int i = 0; i < tensor_.ndim; ++i) {
      shape_[i] = whole.dim(i + dropped);
      strides_[i] = whole.stride(i + dropped);
    }
    tensor_.byte_offset += std::uint64_t(first * whole.stride(0) * Bytes(whole.type()));
    tensor_.shape = shape_;
    tensor_.strides = strides_;
  }
  Tensor tensor_;
  std::int64_t shape_[3], strides_[3];
};

inline void ClearRows(const Tensor& t) {
  for (std::int64_t r = 0; r < t.rows(); ++r) {
    std::memset(t.base<char>() + t.row_offset(r) * Bytes(t.type()), 0,
                std::size_t(t.row_size() * Bytes(t.type())));
  }
}

template <class M>
void GroupGradients(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& weight,
                    const Tensor& offsets, const Tensor* dx, const Tensor* dweight,
                    const Tensor* dbias) {
  const std::int64_t groups = weight.dim(0);
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t first = ReadIndex(offsets, g), rows = ReadIndex(offsets, g + 1) - first;
    const Slice of_weight = Slice::At(dweight ? *dweight : weight, g);
    if (rows == 0) {
      if (dweight) ClearRows(of_weight.tensor());
      if (dbias) ClearRows(Slice::At(*dbias, g).tensor());
      continue;
    }
    const Slice of_x = Slice::Rows(dx ? *dx : x, first, rows);
    const Slice of_bias = Slice::At(dbias ? *dbias : dy, dbias ? g : 0);
    LinearGradients<M, typename M::Weight>(
        ctx, Slice::Rows(dy, first, rows).tensor(), Slice::Rows(x, first, rows).tensor(),
        Slice::At(weight, g).tensor(), dx ? &of_x.tensor() : nullptr,
        dweight ? &of_weight.tensor() : nullptr, dbias ? &of_bias.tensor() : nullptr);
  }
  const std::int64_t done = ReadIndex(offsets, groups);
  if (dx) ClearRows(Slice::Rows(*dx, done, dx->dim(0) - done).tensor());
}

inline void RunGroupedLinearBackward(const Context& ctx, const Tensor& dy, const Tensor& x,
                                     const Tensor& weight, const Tensor& offsets, const Tensor* dx,
                                     const Tensor* dweight, const Tensor* dbias) {
#if defined(__AVX512BF16__)
  GroupGradients<WidestMath>(ctx, dy, x, weight, offsets, dx, dweight, dbias);
#else
  if (x.type() == DType::kF32) {
    return GroupGradients<PairMath<float> >(ctx, dy, x, weight, offsets, dx, dweight, dbias);
  }
  if (x.type() == DType::kF16) {
    return GroupGradients<PairMath<F16> >(ctx, dy, x, weight, offsets, dx, dweight, dbias);
  }
  GroupGradients<SplitMath>(ctx, dy, x, weight, offsets, dx, dweight, dbias);
#endif
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
