// SPDX-License-Identifier: Apache-2.0
// slot_scratch: y = 2 x + its mirror image, by way of scratch, right; and the same with one defect
// each.
//
//   y[i, j] = 2 x[i, j] + x[i, d - 1 - j]
//
// Numerics  f32; the product by 2 is exact.
// Source    tests of the tests
#include <algorithm>
#include <limits>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

constexpr std::int64_t kMostElements = 4096;  // of a row, where scratch is static
float static_scratch[kMostElements];

void RunRow(const Tensor& x, const Tensor& y, std::int64_t r, float* scratch) {
  const float* xr = x.row<const float>(r).data();
  float* yr = y.row<float>(r).data();
  const std::int64_t d = x.row_size();
  for (std::int64_t j = 0; j < d; ++j) scratch[j] = 2 * xr[j];
  for (std::int64_t j = 0; j < d; ++j) yr[j] = scratch[j] + xr[d - 1 - j];
}

void RunInSlots(const Context& ctx, const Tensor& x, const Tensor& y) {
  float* scratch = ctx.Workspace<float>();  // [threads, d]
  ctx.ForRows(x, [&](std::int64_t r, std::int64_t slot) {
    RunRow(x, y, r, scratch + slot * x.row_size());
  });
}

void RunInOneRow(const Context& ctx, const Tensor& x, const Tensor& y) {
  ctx.ForRows(x, [&](std::int64_t r) { RunRow(x, y, r, ctx.Workspace<float>()); });
}

void RunInStaticMemory(const Context& ctx, const Tensor& x, const Tensor& y) {
  ctx.ForRows(x, [&](std::int64_t r) { RunRow(x, y, r, static_scratch); });
}

// Right if its rows are all in one part: calls with few rows are not cut in a program.
void RunWithTheFirstRow(const Context& ctx, const Tensor& x, const Tensor& y) {
  float* scratch = ctx.Workspace<float>();  // [rows, d]
  ctx.ParallelFor(x.rows(), 100000, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      RunRow(x, y, r, scratch + (r - begin) * x.row_size());
    }
  });
}

// Each row needs the scratch of the row before it.
void RunAfterTheRowBefore(const Context& ctx, const Tensor& x, const Tensor& y) {
  float* scratch = ctx.Workspace<float>();  // [rows, d]
  const std::int64_t d = x.row_size();
  ctx.ParallelFor(x.rows(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      RunRow(x, y, r, scratch + r * d);
      if (r > 0 && scratch[(r - 1) * d] != 2 * x.row<const float>(r - 1)[0]) y.row<float>(r)[0] = 0;
    }
  });
}

// Only the first row writes the factors that all rows take: others find what their slot has.
void RunWithFactorsOfTheFirst(const Context& ctx, const Tensor& x, const Tensor& y) {
  ctx.ForRows(x, [&](std::int64_t r, std::int64_t slot) {
    const std::int64_t d = x.row_size();
    float* factors = ctx.Workspace<float>() + slot * d;  // [threads, d]
    if (r == 0) std::fill_n(factors, d, 2.0f);
    const float* xr = x.row<const float>(r).data();
    for (std::int64_t j = 0; j < d; ++j) {
      y.row<float>(r)[std::size_t(j)] = factors[j] * xr[j] + xr[d - 1 - j];
    }
  });
}

// Counts by slot. Those of the slot's earlier parts are still there when a part begins.
template <bool kAddsPerPart>
void RunCountBySlot(const Context& ctx, const Tensor& x, const Tensor& n) {
  const std::int64_t d = x.row_size(), slots = std::max(ctx.threads, 1);
  auto *counts = ctx.Workspace<std::int32_t>(), *all = n.base<std::int32_t>();  // [slots, d], [d]
  std::fill_n(counts, slots * d, 0);
  std::fill_n(all, d, 0);
  ctx.ParallelFor(x.rows(), 1, [&](std::int64_t begin, std::int64_t end, std::int64_t slot) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* xr = x.row<const float>(r).data();
      for (std::int64_t j = 0; j < d; ++j) counts[slot * d + j] += xr[j] > 0;
    }
    for (std::int64_t j = 0; kAddsPerPart && j < d; ++j) {
      __atomic_fetch_add(all + j, counts[slot * d + j], __ATOMIC_RELAXED);
    }
  });
  for (std::int64_t i = 0; !kAddsPerPart && i < slots * d; ++i) all[i % d] += counts[i];
}

// The largest of a column is the same in any order, but not for two threads at once.
void RunLargest(const Context& ctx, const Tensor& x, const Tensor& y) {
  auto* largest = y.base<float>();  // [d]
  std::fill_n(largest, x.row_size(), -std::numeric_limits<float>::infinity());
  ctx.ForRows(x, [&](std::int64_t r) {
    const float* xr = x.row<const float>(r).data();
    for (std::int64_t j = 0; j < x.row_size(); ++j) largest[j] = std::max(largest[j], xr[j]);
  });
}

void RunAtomicCount(const Context& ctx, const Tensor& x, const Tensor& n) {
  auto* counts = n.base<std::int32_t>();  // [d]
  std::fill_n(counts, x.row_size(), 0);
  ctx.ForRows(x, [&](std::int64_t r) {
    const float* xr = x.row<const float>(r).data();
    for (std::int64_t j = 0; j < x.row_size(); ++j) {
      __atomic_fetch_add(counts + j, xr[j] > 0, __ATOMIC_RELAXED);
    }
  });
}

template <auto kRun>
struct Kernels {
  static constexpr Kernel kF32{
      .name = "cpu_f32", .workspace = "4 * max(threads, rows(x)) * d", .run = Bind<kRun>()};
  static constexpr const Kernel* kAll[] = {&kF32};
};

}  // namespace

#define MIRROR(name) name "(x: f32[..., d]) -> (y: f32[..., d]) where d >= 1, d <= 4096"
#define COUNT(name) name "(x: f32[..., d]) -> (n: i32[d]) where d >= 1"

extern constinit const Op slot_scratch{.signature = MIRROR("slot_scratch"),
                                       .kernels = Kernels<&RunInSlots>::kAll};
extern constinit const Op one_scratch{.signature = MIRROR("one_scratch"),
                                      .kernels = Kernels<&RunInOneRow>::kAll};
extern constinit const Op static_memory{.signature = MIRROR("static_memory"),
                                        .kernels = Kernels<&RunInStaticMemory>::kAll};
extern constinit const Op few_rows{.signature = MIRROR("few_rows"),
                                   .kernels = Kernels<&RunWithTheFirstRow>::kAll};
extern constinit const Op row_before{.signature = MIRROR("row_before"),
                                     .kernels = Kernels<&RunAfterTheRowBefore>::kAll};
extern constinit const Op atomic_count{.signature = COUNT("atomic_count"),
                                       .kernels = Kernels<&RunAtomicCount>::kAll};
extern constinit const Op stale_scratch{.signature = MIRROR("stale_scratch"),
                                        .kernels = Kernels<&RunWithFactorsOfTheFirst>::kAll};
extern constinit const Op stale_count{.signature = COUNT("stale_count"),
                                      .kernels = Kernels<&RunCountBySlot<true>>::kAll};
extern constinit const Op sums_at_end{.signature = COUNT("sums_at_end"),
                                      .kernels = Kernels<&RunCountBySlot<false>>::kAll};
extern constinit const Op plain_largest{
    .signature = "plain_largest(x: f32[..., d]) -> (y: f32[d]) where d >= 1",
    .kernels = Kernels<&RunLargest>::kAll};

}  // namespace anyop::ops
