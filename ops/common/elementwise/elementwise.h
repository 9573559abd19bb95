// SPDX-License-Identifier: Apache-2.0
// How elementwise operators walk tensors of one shape, or of one shape but for a row.
#pragma once
#include <algorithm>
#include <type_traits>

#include "anyop/op.h"
#include "anyop/simd.h"
#include "ops/common/stream.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Calls f(n, offset of x, offsets of others...) for runs of n neighbouring elements that cover the
// tensors, in parallel where it pays: pieces of the whole where all are contiguous, else rows.
template <class F, class... Others>
[[gnu::always_inline]] inline void ForRuns(const Context& ctx, double element_ns, F&& f,
                                           const Tensor& x, const Others&... others) {
  if (x.is_contiguous() && (others.is_contiguous() && ...)) {
    constexpr std::int64_t kPiece = 256;
    const std::int64_t n = x.size(), pieces = (n + kPiece - 1) / kPiece;
    const auto grain = std::int64_t(2000 / (element_ns * kPiece)) + 1;
    ctx.ParallelFor(pieces, grain, [&](std::int64_t first, std::int64_t last) {
      const std::int64_t begin = first * kPiece, end = std::min(n, last * kPiece);
      f(end - begin, begin, ((void)others, begin)...);
    });
  } else {
    ctx.ForRows(
        x, [&](std::int64_t r) { f(x.row_size(), x.row_offset(r), others.row_offset(r)...); },
        element_ns);
  }
}

// Calls f(n, offset) for pieces of `piece` elements, the last of fewer, of a contiguous tensor.
template <class F>
[[gnu::always_inline]] inline void ForPieces(const Context& ctx, double element_ns,
                                             std::int64_t size, std::int64_t piece, F&& f) {
  if (size == 0) return;
  const auto grain = std::int64_t(2000 / (element_ns * double(piece))) + 1;
  ctx.ParallelFor((size + piece - 1) / piece, grain, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) f(std::min(piece, size - i * piece), i * piece);
  });
}

// Calls f(r, n) for rows r to r + n - 1 of x, n a constant: kGroup where rows go in groups, and 1.
template <int kGroup, class F>
[[gnu::always_inline]] inline void ForRowGroups(const Context& ctx, const Tensor& x, bool in_groups,
                                                double element_ns, F&& f) {
  const double row_ns = double(x.row_size()) * element_ns + 10;
  ctx.ParallelFor(x.rows(), std::int64_t(2000 / row_ns) + 1, [&](std::int64_t r, std::int64_t end) {
    for (; in_groups && r + kGroup <= end; r += kGroup) {
      f(r, std::integral_constant<int, kGroup>{});
    }
    for (; r < end; ++r) f(r, std::integral_constant<int, 1>{});
  });
}

// Calls f with a value of the C++ type behind one of the three dtypes that compute in f32.
template <class F>
[[gnu::always_inline]] inline void VisitFloat(DType d, F&& f) {
  if (d == DType::kF32) {
    f(float{});
  } else if (d == DType::kBF16) {
    f(BF16{});
  } else {
    f(F16{});
  }
}

// Vectors of a block. A block of bf16 has twice the vectors of one of f32, so that fewer of its
// instructions are those of the loop.
template <class T>
inline constexpr int kVectorsOfBlock = std::is_same_v<T, BF16> ? 8 : 4;

// Rows of so few elements cost more to walk than to compute: a row costs 7 ns. x + 1 on [5000, 1]
// takes 26 times as long row by row as the sum of two tensors.
constexpr bool IsShort(std::int64_t row_size) { return row_size <= 64; }

// A short row, repeated: a tensor of contiguous rows is cut into pieces of n elements instead.
template <class T>
struct ShortRow {
  static constexpr std::int64_t kMost = 512;
  alignas(64) T elements[kMost];
  std::int64_t n;

  // For a tensor of `size` elements.
  ShortRow(const T* row, std::int64_t row_size, std::int64_t size)
      : n(row_size ? std::min(size, kMost / row_size * row_size) : 0) {
    std::copy_n(row, std::min(row_size, n), elements);
    for (std::int64_t have = row_size; have < n; have *= 2) {
      std::copy_n(elements, std::min(have, n - have), elements + have);
    }
  }
};

// apply(n, offset, offset, the row's elements) for pieces of x. Not inlined: with the array in
// their frame, all calls would pay 30 ns for the stack's protection.
template <class T, class F>
[[gnu::noinline]] void RepeatShortRow(const Context& ctx, double element_ns, const T* row,
                                      const Tensor& x, const F& apply) {
  const ShortRow<T> rows(row, x.row_size(), x.size());
  ForPieces(ctx, element_ns, x.size(), rows.n,
            [&](std::int64_t n, std::int64_t i) { apply(n, i, i, rows.elements); });
}

// z = op(x, y), element by element; y is one row for all where its rank is lower. Floats compute in
// f32 lanes and round once, integers wrap.
template <class Op>
[[gnu::always_inline]] inline void RunBinary(const Context& ctx, const Tensor& x, const Tensor& y,
                                             const Tensor& z, Op op) {
  // Inline, because captures of a function of its own go through memory, which costs as much as the
  // sum of a hundred elements: they are written as vectors and read as words, which stalls.
  const auto run = [&](auto zero) __attribute__((always_inline)) {
    using T = decltype(zero);
    const auto compute = [&](const T* a, const T* b, T* c, std::int64_t n)
        __attribute__((always_inline)) {
      if constexpr (std::is_integral_v<T>) {
        using U = std::make_unsigned_t<T>;
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) c[i] = T(op(U(a[i]), U(b[i])));
      } else {
        ForBlocks<kVectorsOfBlock<T>>(n, [&](std::int64_t i, auto count, auto block) {
          F32 u[block], v[block];
          LoadBlock(u, a + i, count);
          LoadBlock(v, b + i, count);
          for (int k = 0; k < block; ++k) u[k] = op(u[k], v[k]);
          StoreBlock(c + i, u, count);
        });
      }
    };
    const bool streams = Streams(ctx, (2 * x.size() + y.size()) * std::int64_t(sizeof(T))) &&
                         !SameMemory(x, z) && !SameMemory(y, z);
    const auto apply = [&](std::int64_t n, std::int64_t ix, std::int64_t iz, const T* b) {
      const T* a = x.base<const T>() + ix;
      T* c = z.base<T>() + iz;
      if (!streams) return compute(a, b, c, n);
      StreamPieces(c, n, [&](T* piece, std::int64_t i, std::int64_t count) {
        compute(a + i, b + i, piece, count);
      });
      EndStream();
    };
    constexpr double kElementNs = sizeof(T) * 0.02;
    const T* const row = y.base<const T>();
    if (y.rank() == x.rank()) {
      const auto run_of_y = [&](std::int64_t n, std::int64_t ix, std::int64_t iz, std::int64_t iy) {
        apply(n, ix, iz, row + iy);
      };
      ForRuns(ctx, kElementNs, run_of_y, x, z, y);
    } else if (x.rows() > 1 && IsShort(x.row_size()) && x.is_contiguous() && z.is_contiguous()) {
      RepeatShortRow(ctx, kElementNs, row, x, apply);
    } else {
      const auto one_row = [&](std::int64_t r) {
        apply(x.row_size(), x.row_offset(r), z.row_offset(r), row);
      };
      ctx.ForRows(x, one_row, kElementNs);
    }
  };
  switch (x.type()) {
    case DType::kI64:
      return run(std::int64_t{});
    case DType::kI32:
      return run(std::int32_t{});
    default:
      VisitFloat(x.type(), run);
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
