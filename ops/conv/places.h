// SPDX-License-Identifier: Apache-2.0
// Sides and results of a convolution's products (ops/common/gemm/chunks.h) where they lie in
// images, filters and gradients: nothing is copied but to the packed blocks and panels.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/common/gemm/chunks.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

using Index = std::int64_t;

// Four indices, the last one fastest.
struct Place {
  Index at[4];
};
// Of element i, which may be 0 where there is none.
inline Place PlaceOf(Index i, const Index (&size)[4]) {
  Place place = {};
  if (i == 0) return place;
  for (int a = 3; a > 0; --a) {
    place.at[a] = i % size[a];
    i /= size[a];
  }
  place.at[0] = i;
  return place;
}
// `steps` further along the last axis, at most to its end, where the next row begins.
[[gnu::always_inline]] inline void Advance(Place& place, const Index (&size)[4], Index steps) {
  place.at[3] += steps;
  for (int a = 3; a > 0 && place.at[a] == size[a]; --a) {
    place.at[a] = 0;
    ++place.at[a - 1];
  }
}

// Elements that four nested axes count: element i lies at offset(i).
struct Digits {
  Index size[4];
  Index stride[4];

  static Digits Line(Index count, Index stride) { return {{1, 1, 1, count}, {0, 0, 0, stride}}; }
  Index count() const { return size[0] * size[1] * size[2] * size[3]; }
  // They follow one another.
  bool is_line() const {
    Index next = 1;
    for (int a = 3; a >= 0; --a) {
      if (size[a] != 1 && stride[a] != next) return false;
      next *= size[a];
    }
    return true;
  }
  Index offset(const Place& place) const {
    Index sum = 0;
    for (int a = 0; a < 4; ++a) sum += place.at[a] * stride[a];
    return sum;
  }
  Index offset(Index i) const { return offset(PlaceOf(i, size)); }
  // Calls f(offset, done, run) for elements [first, first + count) in runs along the last axis.
  template <class F>
  void ForRuns(Index first, Index count, F&& f) const {
    Place place = PlaceOf(first, size);
    for (Index done = 0; done < count;) {
      const Index run = std::min(count - done, size[3] - place.at[3]);
      f(offset(place), done, run);
      Advance(place, size, run);
      done += run;
    }
  }
};

template <class T>
[[gnu::always_inline]] inline void CopyRun(const T* from, Index step, Index count, T* to) {
  if (step == 1) {
    std::memcpy(to, from, std::size_t(count) * sizeof(T));
    return;
  }
  for (Index i = 0; i < count; ++i) to[i] = from[i * step];
}

// A matrix whose element (r, l) is at base[rows.offset(r) + terms.offset(l)].
template <class T>
struct Grid {
  using Element = T;
  const T* base;
  Digits rows, terms;

  // Elements [first, first + count) of row r, in place or in the buffer.
  const T* Read(Index r, Index first, Index count, T* buffer) const {
    const T* row = base + rows.offset(r);
    if (terms.is_line()) return row + first;
    terms.ForRuns(first, count, [&](Index offset, Index done, Index run) {
      CopyRun(row + offset, terms.stride[3], run, buffer + done);
    });
    return buffer;
  }
};

// One axis of an image below a filter: tap t of position i meets coordinate
// i * step + first + t * spacing, which may lie outside.
struct Window {
  Index size;  // of the image
  Index step, first, spacing;
  Index taps, positions;
  Index coordinate(Index position, Index tap) const {
    return position * step + first + tap * spacing;
  }
};

// Rows of the second to last axis that lie before those of an image (causal_conv2d's cache).
template <class T>
struct RowsBefore {
  const T* base = nullptr;
  Index rows = 0;
  Index stride[3] = {};  // of n, c and rows
};

// A matrix whose row (c, t0, t1, t2) holds what tap t of channel c meets, at every position
// (n, i0, i1, i2) in turn; zero outside of the image.
template <class T>
struct Image {
  using Element = T;
  const T* base;
  Index images, channels;
  Index stride[4];  // of n, c and the first two axes; that of the last is `pitch`
  Index pitch;
  Window axis[3];
  RowsBefore<T> before = {};

  struct Sizes {
    Index terms[4], places[4];
  };
  Sizes sizes() const {
    const Window *a = axis, *b = axis + 1, *c = axis + 2;
    return {{channels, a->taps, b->taps, c->taps},
            {images, a->positions, b->positions, c->positions}};
  }
  Index terms() const { return channels * axis[0].taps * axis[1].taps * axis[2].taps; }
  Index places() const {
    return images * axis[0].positions * axis[1].positions * axis[2].positions;
  }

  // `count` elements of the row of `term` from `place` on: in place where they are one run inside
  // of the image, otherwise in the buffer.
  const T* Read(const Place& term, Place place, const Index (&size)[4], Index count,
                T* buffer) const {
    const Window& last = axis[2];
    for (Index done = 0; done < count;) {
      const Index run = std::min(count - done, size[3] - place.at[3]);
      const T* row = Row(term, place);
      const Index x = last.coordinate(place.at[3], term.at[3]);
      const bool is_inside = row && x >= 0 && x + (run - 1) * last.step < last.size;
      if (is_inside && run == count && last.step * pitch == 1) return row + x;
      if (is_inside) {
        CopyRun(row + x * pitch, last.step * pitch, run, buffer + done);
      } else {
        CopyInside(row, x, run, buffer + done);
      }
      Advance(place, size, run);
      done += run;
    }
    return buffer;
  }
  // Row and place by number.
  const T* Read(Index row, Index first, Index count, T* buffer) const {
    const Sizes s = sizes();
    return Read(PlaceOf(row, s.terms), PlaceOf(first, s.places), s.places, count, buffer);
  }

  // The row of the last axis at coordinates (i, j) of the others; null: it lies outside.
  const T* RowAt(Index n, Index c, Index i, Index j) const {
    if (i < 0 || i >= axis[0].size || j >= axis[1].size || j < -before.rows) return nullptr;
    if (j < 0) {
      return before.base + n * before.stride[0] + c * before.stride[1] +
             (j + before.rows) * before.stride[2];
    }
    return base + n * stride[0] + c * stride[1] + i * stride[2] + j * stride[3];
  }

 private:
  const T* Row(const Place& term, const Place& place) const {
    return RowAt(place.at[0], term.at[0], axis[0].coordinate(place.at[1], term.at[1]),
                 axis[1].coordinate(place.at[2], term.at[2]));
  }
  // Elements x, x + step, ... of a row, of which some lie outside.
  [[gnu::noinline]] void CopyInside(const T* row, Index x, Index run, T* out) const {
    const Window& last = axis[2];
    const Index size = row ? last.size : 0;
    const Index begin = x < 0 ? std::min(run, CeilDiv(-x, last.step)) : 0;
    const Index end = x < size ? std::min(run, CeilDiv(size - x, last.step)) : 0;
    std::fill(out, out + begin, T{});
    if (begin < end) {
      CopyRun(row + (x + begin * last.step) * pitch, last.step * pitch, end - begin, out + begin);
    }
    std::fill(out + std::max(begin, end), out + run, T{});
  }
};

// A left side: row r of the product is row r of a Grid, or of an Image.
template <class Source>
struct GatheredRows {
  Source source;
  template <class M, class P>
  void Pack(const Context& ctx, const PackedProduct<M, P>& part, Index inner) const {
    using T = typename Source::Element;
    part.Pack(ctx, [&](Index begin, Index end) {
      T buffer[kIsAmx<M> ? 1 : M::kRows][kInner];
      part.PackBlocksOf(
          begin, end,
          [&](Index r) {
            T* own = buffer[kIsAmx<M> ? 0 : (r - begin) % part.block];
            return source.Read(part.first + r, inner, part.p.k, own);
          },
          [](const auto& x, Index k, typename M::Left* out) { PackRows(x, k, out); });
    });
  }
};

// A right side: term l of the product is row l of an Image, its columns are positions.
template <class T>
struct ImageColumns {
  Image<T> image;
  void Pack(Index first, Index count, Index column, Index columns, T* out) const {
    const auto s = image.sizes();
    const Place place = PlaceOf(column, s.places);
    Place term = PlaceOf(first, s.terms);
    const T zeros[kPanel] = {};
    T buffer[2][kPanel] = {};
    for (Index l = 0; l < count; l += 2, out += 2 * kPanel) {
      const T* pair[2] = {zeros, zeros};
      for (int w = 0; w < 2 && l + w < count; ++w) {
        pair[w] = image.Read(term, place, s.places, columns, buffer[w]);
        if (columns < kPanel && pair[w] != buffer[w]) {
          std::memcpy(buffer[w], pair[w], std::size_t(columns) * sizeof(T));
          pair[w] = buffer[w];
        }
        Advance(term, s.terms, 1);
      }
      Interleave<kPanel>(pair[0], pair[1], out);
    }
  }
};

// A right side: column j of the product is row j of a Grid.
template <class T>
struct GridColumns {
  Grid<T> grid;
  void Pack(Index first, Index count, Index column, Index columns, T* out) const {
    constexpr Index kTerms = 64;
    T buffer[kPanel][kTerms];
    for (Index l = 0; l < count; l += kTerms) {
      const Index terms = std::min(count - l, kTerms);
      for (Index j = 0; j < columns; ++j) {
        const T* row = grid.Read(column + j, first + l, terms, buffer[j]);
        if (row != buffer[j]) std::memcpy(buffer[j], row, std::size_t(terms) * sizeof(T));
      }
      PackPanel(buffer[0], kTerms, columns, terms, out + l * kPanel);
    }
  }
};

// y = left right, sums stored wherever rows and columns lie.
template <class T>
struct PlacedProduct {
  using Sum = float;
  T* y;
  Digits row_places, column_places;
  const T* bias;  // or null: one for each row, or for each column
  bool is_bias_of_rows;
  Index rows, k, n;

  Index steps() const { return (k + 1) / 2; }
  Index panels() const { return (n + kPanel - 1) / kPanel; }
  [[gnu::noinline]] void StorePanel(const float* sums, Index first, Index count,
                                    Index panel) const {
    const Index column = panel * kPanel, columns = std::min<Index>(n - column, kPanel);
    for (Index r = 0; r < count; ++r) {
      T* row = y + row_places.offset(first + r);
      alignas(64) float line[kPanel];
      ForLanes(columns, [&](Index j, auto lanes) [[gnu::always_inline]] {
        F32 v = LoadN(sums + r * kPanel + j, lanes);
        if (bias)
          v += is_bias_of_rows ? Set(float(bias[first + r])) : LoadN(bias + column + j, lanes);
        StoreN(line + j, v, lanes);
      });
      column_places.ForRuns(column, columns, [&](Index offset, Index done, Index run) {
        StoreRun(line + done, run, row + offset);
      });
    }
  }

 private:
  void StoreRun(const float* line, Index run, T* to) const {
    const Index step = column_places.stride[3];
    if (step == 1) {
      return ForLanes(run, [&](Index j, auto lanes) [[gnu::always_inline]] {
        StoreN(to + j, LoadN(line + j, lanes), lanes);
      });
    }
    for (Index j = 0; j < run; ++j) to[j * step] = T(line[j]);
  }
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
