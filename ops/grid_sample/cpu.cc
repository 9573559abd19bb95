// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string_view>

#include "ops/common/elementwise/elementwise.h"

namespace anyop::ops {
namespace {

using Index = std::int64_t;

// Where a coordinate falls on one axis of the image.
struct Place {
  Index first;     // of the two neighbours
  float fraction;  // of the way from it to the next
};

class Axis {
 public:
  Axis(Index size, bool border, bool align_corners)
      : size_(size), border_(border), align_corners_(align_corners) {}

  // u: -1 ... 1 spans the image.
  Place Find(float u) const {
    const float size = float(size_);
    const float p = align_corners_ ? (u + 1) / 2 * (size - 1) : ((u + 1) * size - 1) / 2;
    // So far outside that no neighbour is in the image. std::max gives its first argument for NaN.
    const float low = border_ ? 0 : -2, high = border_ ? size - 1 : size + 1;
    const float kept = std::min(high, std::max(low, p));
    const float floor = std::floor(kept);
    return {Index(floor), kept - floor};
  }
  bool Holds(Index i) const { return i >= 0 && i < size_; }

 private:
  Index size_;
  bool border_, align_corners_;
};

// The neighbours of a point: offsets within a plane of the image (-1: outside), and weights.
struct Corners {
  Index offset[4];
  float weight[4];
};

Corners FindCorners(const Axis& rows, const Axis& columns, const float* uv, Index row_stride,
                    Index column_stride) {
  const Place x = columns.Find(uv[0]), y = rows.Find(uv[1]);
  Corners corners;
  for (int i = 0; i < 4; ++i) {
    const Index column = x.first + i % 2, row = y.first + i / 2;
    const bool is_inside = columns.Holds(column) && rows.Holds(row);
    corners.offset[i] = is_inside ? row * row_stride + column * column_stride : -1;
    corners.weight[i] =
        (i % 2 ? x.fraction : 1 - x.fraction) * (i / 2 ? y.fraction : 1 - y.fraction);
  }
  return corners;
}

// y[c] = the weighted sum of the corners' channels, which lie together.
template <class T>
void SampleChannels(const T* image, const Corners& corners, Index c, T* y) {
  ForBlocks<4>(c, [&](Index ch, auto count, auto block) {
    F32 sum[block], v[block];
    for (int b = 0; b < block; ++b) sum[b] = Zero();
    for (int i = 0; i < 4; ++i) {
      if (corners.offset[i] < 0) continue;
      LoadBlock(v, image + corners.offset[i] + ch, count);
      for (int b = 0; b < block; ++b) sum[b] = Fma(Set(corners.weight[i]), v[b], sum[b]);
    }
    StoreBlock(y + ch, sum, count);
  });
}

template <class T>
float SampleOne(const T* plane, const Corners& corners) {
  float sum = 0;
  for (int i = 0; i < 4; ++i) {
    if (corners.offset[i] >= 0) sum += corners.weight[i] * float(plane[corners.offset[i]]);
  }
  return sum;
}

// Points of one row of the grid, a few at a time: each is found once for all channels.
template <class T>
void SampleRow(const Tensor& x, const Tensor& grid, const Axis& rows, const Axis& columns, Index n,
               Index i, bool channels_last, const Tensor& y) {
  constexpr Index kPoints = 32;
  Corners corners[kPoints];
  const T* image = x.at<const T>(n);
  const int h = channels_last ? 1 : 2;
  const Index points = grid.dim(2), c = x.dim(channels_last ? 3 : 1);
  for (Index first = 0; first < points; first += kPoints) {
    const Index count = std::min(kPoints, points - first);
    for (Index j = 0; j < count; ++j) {
      corners[j] = FindCorners(rows, columns, grid.at<const float>(n, i, first + j), x.stride(h),
                               x.stride(h + 1));
    }
    if (channels_last) {
      for (Index j = 0; j < count; ++j) {
        SampleChannels(image, corners[j], c, y.at<T>(n, i, first + j));
      }
      continue;
    }
    for (Index ch = 0; ch < c; ++ch) {
      T* to = y.at<T>(n, ch, i) + first;
      for (Index j = 0; j < count; ++j) to[j] = T(SampleOne(image + ch * x.stride(1), corners[j]));
    }
  }
}

void Run(const Context& ctx, const Tensor& x, const Tensor& grid, std::string_view padding_mode,
         bool align_corners, std::string_view layout, const Tensor& y) {
  const bool channels_last = layout == "NHWC", border = padding_mode == "border";
  const Axis rows(x.dim(channels_last ? 1 : 2), border, align_corners);
  const Axis columns(x.dim(channels_last ? 2 : 3), border, align_corners);
  const Index c = x.dim(channels_last ? 3 : 1), ho = grid.dim(1);
  const double row_ns = double(grid.dim(2)) * (20 + double(c) * (channels_last ? 0.3 : 3));
  VisitFloat(x.type(), [&](auto zero) {
    ctx.ParallelFor(grid.dim(0) * ho, Index(2000 / (row_ns + 10)) + 1, [&](Index begin, Index end) {
      for (Index r = begin; r < end; ++r) {
        SampleRow<decltype(zero)>(x, grid, rows, columns, r / ho, r % ho, channels_last, y);
      }
    });
  });
}

}  // namespace

ANYOP_KERNEL(grid_sample){.run = Bind<&Run>()};

}  // namespace anyop::ops
