// SPDX-License-Identifier: Apache-2.0
// Convolutions of each channel alone (a group has one channel and few filters). A product of
// matrices would pack a row of taps for every one of its few rows; here a band of the image, with
// the zeros around it, is held as f32 in the first level of cache and read once for each tap.
//
// A sum is one chain of additions in the order of the taps, wherever its position lies.
#pragma once
#include <algorithm>
#include <cstdint>

#include "ops/conv/places.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

inline constexpr Index kBandElements = 6144;  // 24 KiB
inline constexpr Index kMostTaps = 64;
inline constexpr Index kMostFilters = 4;  // of a group: beyond, tiles of a product are faster

// Rows and columns of positions whose band fits.
//
// A row of the band has a line for each remainder of coordinates by the step, so that positions
// are neighbours there: coordinate first + (column + k) * step + r is element k of line r.
struct Band {
  Index rows, columns;        // of positions
  Index lines, line, height;  // of a row, elements of a line, rows of the image

  static Band Of(const Window& y, const Window& x, Index rows) {
    Band b{rows, std::min<Index>(x.positions, 8 * kLanes), x.step, 0, 0};
    const Index spread = (x.taps - 1) * x.spacing / x.step + 1;
    b.line = CeilDiv(b.columns, kLanes) * kLanes + spread;
    b.height = (rows - 1) * y.step + (y.taps - 1) * y.spacing + 1;
    return b;
  }
  Index elements() const { return height * lines * line; }
};

template <class T>
class DirectConvolution {
 public:
  // image: of any group. weight and y: of the first filter, as they lie for filter o of image n.
  Image<T> image;
  const T* weight;
  Digits weight_taps;  // {1, 1, kh, kw}
  Index weight_stride;
  const T* bias;
  T* y;
  Index y_stride[3];  // of n, filters and rows
  Index groups, filters;

  static bool Takes(const Image<T>& image, Index filters) {
    const Window &y = image.axis[1], &x = image.axis[2];
    return image.channels == 1 && filters <= kMostFilters && image.axis[0].taps == 1 &&
           image.axis[0].positions == 1 && y.taps * x.taps <= kMostTaps &&
           Band::Of(y, x, 1).elements() <= kBandElements;
  }

  void Run(const Context& ctx) const {
    const Window &down = image.axis[1], &across = image.axis[2];
    Index rows = std::min<Index>(down.positions, 32);
    while (rows > 1 && Band::Of(down, across, rows).elements() > kBandElements) rows /= 2;
    const Band band = Band::Of(down, across, rows);
    const Index size[4] = {image.images, groups, CeilDiv(down.positions, band.rows),
                           CeilDiv(across.positions, band.columns)};
    const double ns =
        double(band.rows * band.columns * (filters * down.taps * across.taps + 8)) / 8;
    ctx.ParallelFor(size[0] * size[1] * size[2] * size[3], Index(2000 / ns) + 1,
                    [&](Index begin, Index end) {
                      for (Index i = begin; i < end; ++i) RunBand(band, PlaceOf(i, size));
                    });
  }

 private:
  [[gnu::noinline]] void RunBand(const Band& band, const Place& at) const {
    const Window &down = image.axis[1], &across = image.axis[2];
    alignas(64) float buffer[kBandElements];
    float taps[kMostTaps];
    const Index n = at.at[0], group = at.at[1];
    const Index row = at.at[2] * band.rows, column = at.at[3] * band.columns;
    for (Index j = 0; j < band.height; ++j) {
      const T* from = image.RowAt(n, group, 0, row * down.step + down.first + j);
      for (Index r = 0; r < band.lines; ++r) {
        FillLine(from, column * across.step + across.first + r, band.line,
                 buffer + (j * band.lines + r) * band.line);
      }
    }
    const Index rows = std::min(band.rows, down.positions - row);
    const Index columns = std::min(band.columns, across.positions - column);
    for (Index o = group * filters; o < (group + 1) * filters; ++o) {
      for (Index t = 0; t < down.taps * across.taps; ++t) {
        taps[t] = float(weight[o * weight_stride + weight_taps.offset(t)]);
      }
      const F32 b = Set(bias ? float(bias[o]) : 0);
      for (Index r = 0; r < rows; ++r) {
        T* to = y + n * y_stride[0] + o * y_stride[1] + (row + r) * y_stride[2] + column;
        const float* first = buffer + r * down.step * band.lines * band.line;
        ForLanes(columns, [&](Index j, auto count) [[gnu::always_inline]] {
          StoreN(to + j, SumAt(band, taps, first + j) + b, count);
        });
      }
    }
  }

  [[gnu::always_inline]] F32 SumAt(const Band& band, const float* taps, const float* at) const {
    const Window &down = image.axis[1], &across = image.axis[2];
    F32 sum = Zero();
    for (Index a = 0; a < down.taps; ++a) {
      const float* row = at + a * down.spacing * band.lines * band.line;
      for (Index b = 0; b < across.taps; ++b) {
        const Index x = b * across.spacing;
        const float* element =
            row + (band.lines == 1 ? x : x % across.step * band.line + x / across.step);
        sum = Fma(Load(element), Set(*taps++), sum);
      }
    }
    return sum;
  }

  // Elements at coordinates x, x + step, ...; 0 where they lie outside.
  void FillLine(const T* row, Index x, Index count, float* line) const {
    const Window& across = image.axis[2];
    const Index size = row ? across.size : 0;
    const Index end = x < size ? std::min(count, CeilDiv(size - x, across.step)) : 0;
    const Index begin = std::min(end, x < 0 ? CeilDiv(-x, across.step) : 0);
    std::fill(line, line + begin, 0.0f);
    std::fill(line + end, line + count, 0.0f);
    if (begin == end) return;
    const T* from = row + (x + begin * across.step) * image.pitch;
    const Index step = across.step * image.pitch;
    line += begin;
    if (step == 1) {
      return ForLanes(end - begin, [&](Index j, auto lanes) [[gnu::always_inline]] {
        StoreN(line + j, LoadN(from + j, lanes), lanes);
      });
    }
    for (Index k = 0; k < end - begin; ++k) line[k] = float(from[k * step]);
  }
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
