// SPDX-License-Identifier: Apache-2.0
// Gradients of convolutions as products of matrices.
//
//   dweight[o, (c, a)] = sum over positions of dy[o, Y] * what tap (c, a) meets there
//   dx                 elements of x whose coordinates have the same remainder by the stride meet
//                      the same taps, so that they are a convolution of dy with these
#pragma once
#include <cstdint>
#include <numeric>
#include <span>
#include <string_view>

#include "ops/conv/conv.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Along one axis: the taps that meet the elements `phase`, phase + stride, ... of x.
struct Phase {
  Index first_tap, tap_step;
  Window window;  // of dy
  static Phase Of(const Convolution& c, std::size_t a, Index phase) {
    const Index stride = c.stride[a], dilation = c.dilation[a], taps = c.weight.size[a];
    Phase p{0, stride / std::gcd(stride, dilation), {}};
    const auto meets = [&](Index tap) { return (phase + c.top[a] - tap * dilation) % stride == 0; };
    while (p.first_tap < p.tap_step && !meets(p.first_tap)) ++p.first_tap;
    const bool has_taps = p.first_tap < p.tap_step && p.first_tap < taps;
    const Index size = c.x.size[a];
    p.window = {c.y.size[a],
                1,
                (phase + c.top[a] - p.first_tap * dilation) / stride,
                -(p.tap_step * dilation / stride),
                has_taps ? CeilDiv(taps - p.first_tap, p.tap_step) : 0,
                phase < size ? CeilDiv(size - phase, stride) : 0};
    if (!has_taps) p.first_tap = 0;
    return p;
  }
};

// dx at the elements of one phase of each axis, in one group.
template <class M, class T = typename M::Weight>
inline void InputGradientOfPhases(const Context& ctx, const Convolution& c, const Phase (&phase)[3],
                                  const Triple& first, Index group, const T* dy, const T* weight,
                                  T* dx) {
  const Index filters = c.filters(), channels = c.channels();
  Image<T> image{dy + group * filters * c.y.c_stride,
                 c.y.n,
                 filters,
                 {c.y.n_stride, c.y.c_stride, c.y.stride[0], c.y.stride[1]},
                 c.y.stride[2],
                 {phase[0].window, phase[1].window, phase[2].window}};
  Grid<T> left{weight + group * filters * c.weight.n_stride,
               Digits::Line(channels, c.weight.c_stride),
               {{filters, phase[0].window.taps, phase[1].window.taps, phase[2].window.taps},
                {c.weight.n_stride, 0, 0, 0}}};
  T* to = dx + group * channels * c.x.c_stride;
  Triple count;
  for (std::size_t a = 0; a < 3; ++a) {
    left.base += phase[a].first_tap * c.weight.stride[a];
    left.terms.stride[a + 1] = phase[a].tap_step * c.weight.stride[a];
    to += first[a] * c.x.stride[a];
    count[a] = phase[a].window.positions;
  }
  const Digits places = c.x.Positions(count, c.stride);
  if (channels == 0 || places.count() == 0) return;
  const PlacedProduct<T> p{to,
                           Digits::Line(channels, c.x.c_stride),
                           places,
                           nullptr,
                           false,
                           channels,
                           image.terms(),
                           places.count()};
  MultiplyGridByImage<M>(ctx, p, left, image);
}

template <class M, class T = typename M::Weight>
inline void InputGradient(const Context& ctx, const Convolution& c, const T* dy, const T* weight,
                          T* dx) {
  for (Index g = 0; g < c.groups; ++g) {
    Triple first;
    for (first[0] = 0; first[0] < c.stride[0] && first[0] < c.x.size[0]; ++first[0]) {
      for (first[1] = 0; first[1] < c.stride[1] && first[1] < c.x.size[1]; ++first[1]) {
        for (first[2] = 0; first[2] < c.stride[2] && first[2] < c.x.size[2]; ++first[2]) {
          const Phase phase[3] = {Phase::Of(c, 0, first[0]), Phase::Of(c, 1, first[1]),
                                  Phase::Of(c, 2, first[2])};
          InputGradientOfPhases<M>(ctx, c, phase, first, g, dy, weight, dx);
        }
      }
    }
  }
}

// The matrix form: patches of dx are rows of dy times filters; elements of x that no patch has get
// 0.
template <class M, class T = typename M::Weight>
inline void PatchesGradient(const Context& ctx, const Convolution& c, const T* dy, const T* weight,
                            T* dx) {
  Planes patch = c.x;
  patch.size = c.weight.size;
  const Digits all = c.x.Positions(c.x.size, {1, 1, 1});
  bool covers = true;
  for (std::size_t a = 0; a < 3; ++a) covers &= c.y.size[a] * c.weight.size[a] == c.x.size[a];
  for (Index channel = 0; !covers && channel < c.x.c; ++channel) {
    all.ForRuns(0, all.count(), [&](Index offset, Index, Index run) {
      T* row = dx + channel * c.x.c_stride + offset;
      std::fill(row, row + run, T{});
    });
  }
  const Digits rows = c.y.Positions(c.y.size, {1, 1, 1});
  if (c.terms() == 0 || rows.count() == 0) return;
  const Grid<T> left{dy, rows, Digits::Line(c.weight.n, c.y.c_stride)};
  // Filter o is a channel, its elements are the positions.
  const auto line = [](Index size) { return Window{size, 1, 0, 0, 1, size}; };
  const Image<T> right{
      weight,
      c.weight.c,
      c.weight.n,
      {c.weight.c_stride, c.weight.n_stride, c.weight.stride[0], c.weight.stride[1]},
      c.weight.stride[2],
      {line(c.weight.size[0]), line(c.weight.size[1]), line(c.weight.size[2])}};
  const PlacedProduct<T> p{dx,
                           c.x.Positions(c.y.size, c.stride),
                           patch.Terms(c.x.c),
                           nullptr,
                           false,
                           rows.count(),
                           c.weight.n,
                           c.terms()};
  MultiplyGridByImage<M>(ctx, p, left, right);
}

template <class M, class T = typename M::Weight>
inline void FilterGradient(const Context& ctx, const Convolution& c, const T* dy, const T* x,
                           const Planes& planes, T* dweight) {
  const Index filters = c.filters(), terms = c.terms();
  if (filters == 0 || terms == 0) return;
  const Digits places = c.y.Positions(c.y.size, {1, 1, 1});
  for (Index g = 0; g < c.groups; ++g) {
    const Grid<T> right{dy + g * filters * c.y.c_stride, Digits::Line(filters, c.y.c_stride),
                        places};
    const PlacedProduct<T> p{dweight + g * filters * planes.n_stride,
                             planes.Terms(c.channels()),
                             Digits::Line(filters, planes.n_stride),
                             nullptr,
                             false,
                             terms,
                             places.count(),
                             filters};
    MultiplyImageByGrid<M>(ctx, p, WindowsOf(c, x, g), right);
  }
}

// In double, a chunk of rows at a time: the sums are long.
template <class T>
inline void BiasGradient(const Context& ctx, const Convolution& c, const T* dy, T* dbias) {
  const Digits places = c.y.Positions(c.y.size, {1, 1, 1});
  const Index grain = 20000 / (places.count() + 1) + 1;
  ctx.ParallelFor(c.weight.n, grain, [&](Index begin, Index end) {
    for (Index o = begin; o < end; ++o) {
      double sum = 0;
      places.ForRuns(0, places.count(), [&](Index offset, Index, Index run) {
        const T* row = dy + o * c.y.c_stride + offset;
        for (Index i = 0; i < run; ++i) sum += double(float(row[i * places.stride[3]]));
      });
      dbias[o] = T(float(sum));
    }
  });
}

template <class M>
inline void Gradients(const Context& ctx, const Convolution& c, const Tensor& dy, const Tensor& x,
                      const Tensor& weight, const Tensor* dx, const Tensor* dweight,
                      const Tensor* dbias) {
  using T = typename M::Weight;
  const auto *d = dy.base<const T>(), *w = weight.base<const T>();
  if (dx) {
    Convolution of_dx = c;  // dx lies in memory as it likes
    const Planes planes = Planes::Of(*dx);
    of_dx.x = planes;
    if (c.is_matrix()) {
      PatchesGradient<M>(ctx, of_dx, d, w, dx->base<T>());
    } else {
      InputGradient<M>(ctx, of_dx, d, w, dx->base<T>());
    }
  }
  if (dweight) {
    FilterGradient<M>(ctx, c, d, x.base<const T>(), Planes::Of(*dweight), dweight->base<T>());
  }
  if (dbias) BiasGradient(ctx, c, d, dbias->base<T>());
}

// conv2d_backward and conv3d_backward.
template <class Math>
void RunConvBackward(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& weight,
                     std::span<const Index> stride, std::span<const Index> padding,
                     std::span<const Index> dilation, Index groups, std::string_view pad,
                     const Tensor* dx, const Tensor* dweight, const Tensor* dbias) {
  const Convolution c =
      ConvolutionOf(Planes::Of(x), weight, Planes::Of(dy), stride, padding, dilation, groups, pad);
  Math::Visit(x.type(), [&](auto math) {
    Gradients<decltype(math)>(ctx, c, dy, x, weight, dx, dweight, dbias);
  });
}
template <class Math>
void RunPatchEmbedBackward(const Context& ctx, const Tensor& dy, const Tensor& x,
                           const Tensor& weight, const Tensor* dx, const Tensor* dweight,
                           const Tensor* dbias) {
  const Convolution c = PatchEmbedding(x, weight, dy);
  Math::Visit(x.type(), [&](auto math) {
    Gradients<decltype(math)>(ctx, c, dy, x, weight, dx, dweight, dbias);
  });
}

// Of the products for dx, by phases and by patches, and for dweight.
constexpr SizeText GradientBytes(const SizeText& channels, const SizeText& filters,
                                 const SizeText& taps, const SizeText& places) {
  const SizeText threads = "threads", size = "size(x)", terms = channels * taps;
  const SizeText pixels = size / Max(channels, SizeText(1));
  const SizeText by_phases =
      ProductsWorkspace<SizeText>(threads, channels, filters * taps, pixels).bytes();
  const SizeText by_patches = ProductsWorkspace<SizeText>(threads, places, filters, terms).bytes();
  const SizeText of_filters = ProductsWorkspace<SizeText>(threads, terms, places, filters).bytes();
  return Max(Max(by_phases, by_patches), of_filters);
}
template <int kAxes>
constexpr SizeText ConvBackwardBytes() {
  const SizeText co = "co", groups = "groups", cg = "cg", size = "size(dy)";
  return GradientBytes(cg, co / groups, TapsText(kAxes), size / Max(co, SizeText(1)));
}
constexpr SizeText PatchEmbedBackwardBytes() {
  const SizeText size = "size(weight)", co = "co", ci = "ci", rows = "rows(dy)";
  return GradientBytes(ci, co, size / Max(co * ci, SizeText(1)), rows);
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
