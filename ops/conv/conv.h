// SPDX-License-Identifier: Apache-2.0
// Convolutions as products of matrices. Along each image axis one rule serves all operators, so
// that of two axes has a first axis of size 1.
//
//   y[n, o, Y] = bias[o] +
//       sum over c, a of weight[o, c, a] * x[n, g*cg + c, Y*stride - top + a*dilation]
//
// Where the windows neither overlap nor reach outside (stride = kernel), every element of x is read
// once, and rows of patches are packed as they lie: the matrix form.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "anyop/op.h"
#include "ops/conv/direct.h"
#include "ops/conv/places.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

using Triple = std::array<Index, 3>;

// Sizes and strides of [n, c, axes...], three axes whatever the tensor has.
struct Planes {
  Index n, c;
  Triple size;
  Index n_stride, c_stride;
  Triple stride;  // of the axes

  static Planes Of(const Tensor& t) {
    Planes p{t.dim(0), t.dim(1), {1, 1, 1}, t.stride(0), t.stride(1), {0, 0, 1}};
    const int skipped = 5 - t.rank();
    for (int a = skipped; a < 3; ++a) {
      p.size[std::size_t(a)] = t.dim(2 + a - skipped);
      if (a < 2) p.stride[std::size_t(a)] = t.stride(2 + a - skipped);
    }
    return p;
  }
  Index positions() const { return size[0] * size[1] * size[2]; }
  // Positions that lie `steps` apart, of all images; channels and taps of one.
  Digits Positions(const Triple& count, const Triple& steps) const {
    return {{n, count[0], count[1], count[2]},
            {n_stride, stride[0] * steps[0], stride[1] * steps[1], stride[2] * steps[2]}};
  }
  Digits Terms(Index channels) const {
    return {{channels, size[0], size[1], size[2]}, {c_stride, stride[0], stride[1], stride[2]}};
  }
};

inline Triple ThreeOf(std::span<const Index> list, Index first) {
  return list.size() == 3 ? Triple{list[0], list[1], list[2]} : Triple{first, list[0], list[1]};
}

struct Convolution {
  Planes x, weight, y;
  Triple stride, dilation, top;
  Index groups = 1;

  Index channels() const { return weight.c; }          // of a group
  Index filters() const { return weight.n / groups; }  // of a group
  Index terms() const { return weight.c * weight.positions(); }
  Triple kernel() const { return weight.size; }
  bool is_matrix() const {
    if (groups != 1 || stride != weight.size || top != Triple{0, 0, 0}) return false;
    for (std::size_t a = 0; a < 3; ++a) {
      if (dilation[a] != 1 || y.size[a] > x.size[a] / weight.size[a]) return false;
    }
    return true;
  }
};

// Of the arguments that conv2d and conv3d share.
inline Convolution ConvolutionOf(const Planes& x, const Tensor& weight, const Planes& y,
                                 std::span<const Index> stride, std::span<const Index> padding,
                                 std::span<const Index> dilation, Index groups,
                                 std::string_view pad) {
  Convolution c{x,     Planes::Of(weight), y, ThreeOf(stride, 1), ThreeOf(dilation, 1), {0, 0, 0},
                groups};
  if (pad == "given") c.top = ThreeOf(padding, 0);
  for (std::size_t a = 0; pad == "same" && a < 3; ++a) {
    c.top[a] = c.dilation[a] * (c.weight.size[a] - 1) / 2;
  }
  return c;
}

// Windows of x, from the first channel of a group on.
template <class T>
inline Image<T> WindowsOf(const Convolution& c, const T* x, Index group) {
  Image<T> image{x + group * c.channels() * c.x.c_stride,
                 c.x.n,
                 c.channels(),
                 {c.x.n_stride, c.x.c_stride, c.x.stride[0], c.x.stride[1]},
                 c.x.stride[2],
                 {}};
  for (std::size_t a = 0; a < 3; ++a) {
    image.axis[a] = {c.x.size[a],   c.stride[a],      -c.top[a],
                     c.dilation[a], c.weight.size[a], c.y.size[a]};
  }
  return image;
}

// The three kinds of products, compiled once for each math type.
template <class M, class T = typename M::Weight>
[[gnu::noinline]] void MultiplyGridByImage(const Context& ctx, const PlacedProduct<T>& p,
                                           const Grid<T>& left, const Image<T>& right) {
  MultiplyChunks<M>(ctx, p, GatheredRows<Grid<T>>{left}, ImageColumns<T>{right});
}
template <class M, class T = typename M::Weight>
[[gnu::noinline]] void MultiplyGrids(const Context& ctx, const PlacedProduct<T>& p,
                                     const Grid<T>& left, const Grid<T>& right) {
  MultiplyChunks<M>(ctx, p, GatheredRows<Grid<T>>{left}, GridColumns<T>{right});
}
template <class M, class T = typename M::Weight>
[[gnu::noinline]] void MultiplyImageByGrid(const Context& ctx, const PlacedProduct<T>& p,
                                           const Image<T>& left, const Grid<T>& right) {
  MultiplyChunks<M>(ctx, p, GatheredRows<Image<T>>{left}, GridColumns<T>{right});
}

template <class T>
[[gnu::noinline]] void ConvolveDirectly(const Context& ctx, const Convolution& c,
                                        const Image<T>& image, const T* weight, const T* bias,
                                        T* y) {
  const DirectConvolution<T> direct{image,
                                    weight,
                                    c.weight.Terms(1),
                                    c.weight.n_stride,
                                    bias,
                                    y,
                                    {c.y.n_stride, c.y.c_stride, c.y.stride[1]},
                                    c.groups,
                                    c.filters()};
  direct.Run(ctx);
}

// Filters of a group by all positions.
template <class M, class T = typename M::Weight>
inline void ConvolveWindows(const Context& ctx, const Convolution& c, const T* x, const T* weight,
                            const T* bias, T* y, const RowsBefore<T>& before = {}) {
  const Index filters = c.filters();
  const Digits places = c.y.Positions(c.y.size, {1, 1, 1});
  if (filters == 0 || places.count() == 0) return;
  Image<T> all = WindowsOf(c, x, 0);
  all.before = before;
  if (DirectConvolution<T>::Takes(all, filters)) {
    return ConvolveDirectly(ctx, c, all, weight, bias, y);
  }
  for (Index g = 0; g < c.groups; ++g) {
    Image<T> image = WindowsOf(c, x, g);
    image.before = before;
    if (before.base) image.before.base += g * c.channels() * before.stride[1];
    const Grid<T> left{weight + g * filters * c.weight.n_stride,
                       Digits::Line(filters, c.weight.n_stride), c.weight.Terms(c.channels())};
    const PlacedProduct<T> p{y + g * filters * c.y.c_stride,
                             Digits::Line(filters, c.y.c_stride),
                             places,
                             bias ? bias + g * filters : nullptr,
                             true,
                             filters,
                             c.terms(),
                             places.count()};
    MultiplyGridByImage<M>(ctx, p, left, image);
  }
}

// The matrix form: filters by patches, or patches by filters where y has its channels last.
template <class M, class T = typename M::Weight>
inline void ConvolvePatches(const Context& ctx, const Convolution& c, const T* x, const T* weight,
                            const T* bias, T* y) {
  const Digits places = c.y.Positions(c.y.size, {1, 1, 1});
  const Digits filters = Digits::Line(c.weight.n, c.y.c_stride);
  if (c.weight.n == 0 || places.count() == 0) return;
  Planes patch = c.x;
  patch.size = c.weight.size;
  const Grid<T> patches{x, c.x.Positions(c.y.size, c.stride), patch.Terms(c.x.c)};
  const Grid<T> rows{weight, Digits::Line(c.weight.n, c.weight.n_stride), c.weight.Terms(c.x.c)};
  if (c.y.c_stride == 1) {
    const PlacedProduct<T> p{y,     places,         filters,   bias,
                             false, places.count(), c.terms(), c.weight.n};
    return MultiplyGrids<M>(ctx, p, patches, rows);
  }
  const PlacedProduct<T> p{y, filters, places, bias, true, c.weight.n, c.terms(), places.count()};
  MultiplyGrids<M>(ctx, p, rows, patches);
}

// `.when` of the matrix form: where windows neither overlap nor reach outside.
#if defined(__AVX512BF16__)
#define ANYOP_CONV_TYPES "T == bf16 and "  // all that dot instructions take
#else
#define ANYOP_CONV_TYPES ""
#endif
#define ANYOP_CONV_MATRIX " and dilation == 1 and groups == 1 and (padding == 0 or pad != 'given')"
inline constexpr const char* kIsMatrix2d =
    ANYOP_CONV_TYPES "stride[0] == kh and stride[1] == kw" ANYOP_CONV_MATRIX;
inline constexpr const char* kIsMatrix3d =
    ANYOP_CONV_TYPES "stride[0] == ks and stride[1] == kh and stride[2] == kw" ANYOP_CONV_MATRIX;

// Calls f(M{}) with the math type of a dtype.
struct AnyMath {
  template <class F>
  static void Visit(DType dtype, F&& f) {
    if (dtype == DType::kF32) return f(PairMath<float>{});
    if (dtype == DType::kF16) return f(PairMath<F16>{});
    f(SplitMath{});
  }
};
#if defined(__AVX512BF16__)
struct OnlyDotMath {
  template <class F>
  static void Visit(DType, F&& f) {
    f(BF16DotMath{});
  }
};
#endif

template <class T>
inline const T* BaseOf(const Tensor* t) {
  return t ? t->base<const T>() : nullptr;
}

// conv2d and conv3d. is_matrix: by patches, which the kernel's `.when` has found possible.
template <class Math, bool kIsMatrix>
void RunConv(const Context& ctx, const Tensor& x, const Tensor& weight, const Tensor* bias,
             std::span<const Index> stride, std::span<const Index> padding,
             std::span<const Index> dilation, Index groups, std::string_view pad, const Tensor& y) {
  const Convolution c =
      ConvolutionOf(Planes::Of(x), weight, Planes::Of(y), stride, padding, dilation, groups, pad);
  Math::Visit(x.type(), [&](auto math) {
    using M = decltype(math);
    using T = typename M::Weight;
    const auto *in = x.base<const T>(), *w = weight.base<const T>(), *b = BaseOf<T>(bias);
    if (kIsMatrix) return ConvolvePatches<M>(ctx, c, in, w, b, y.base<T>());
    ConvolveWindows<M>(ctx, c, in, w, b, y.base<T>());
  });
}

template <class Math>
void RunCausalConv2d(const Context& ctx, const Tensor& x, const Tensor& weight, const Tensor* bias,
                     const Tensor* cache, std::span<const Index> stride, Index padding_w,
                     std::span<const Index> dilation, Index groups, const Tensor& y) {
  Convolution c =
      ConvolutionOf(Planes::Of(x), weight, Planes::Of(y), stride, {}, dilation, groups, "valid");
  c.top = {0, c.dilation[1] * (c.weight.size[1] - 1), padding_w};
  Math::Visit(x.type(), [&](auto math) {
    using M = decltype(math);
    using T = typename M::Weight;
    RowsBefore<T> before;
    if (cache) {
      before = {cache->base<const T>(),
                cache->dim(2),
                {cache->stride(0), cache->stride(1), cache->stride(2)}};
    }
    ConvolveWindows<M>(ctx, c, x.base<const T>(), weight.base<const T>(), BaseOf<T>(bias),
                       y.base<T>(), before);
  });
}

// The result of patch_embed, [n, positions, c], as planes.
inline Planes PatchesOf(const Tensor& y, const Planes& x, const Planes& weight) {
  Planes p{y.dim(0), y.dim(2), {}, y.stride(0), 1, {}};
  Index stride = y.stride(1);
  for (std::size_t a = 3; a-- > 0;) {
    p.size[a] = x.size[a] / weight.size[a];
    p.stride[a] = stride;
    stride *= p.size[a];
  }
  return p;
}
inline Convolution PatchEmbedding(const Tensor& x, const Tensor& weight, const Tensor& y) {
  const Planes in = Planes::Of(x), w = Planes::Of(weight);
  return {in, w, PatchesOf(y, in, w), w.size, {1, 1, 1}, {0, 0, 0}};
}

template <class Math>
void RunPatchEmbed(const Context& ctx, const Tensor& x, const Tensor& weight, const Tensor* bias,
                   const Tensor& y) {
  const Convolution c = PatchEmbedding(x, weight, y);
  Math::Visit(x.type(), [&](auto math) {
    using M = decltype(math);
    using T = typename M::Weight;
    ConvolvePatches<M>(ctx, c, x.base<const T>(), weight.base<const T>(), BaseOf<T>(bias),
                       y.base<T>());
  });
}

// Of products of up to `inner` terms.
template <class N>
struct ProductsWorkspace : Workspace<N> {
  Part<char, N> chunk;  // a ChunksWorkspace of one chunk
  Part<float, N> sums;  // where there are several
  constexpr ProductsWorkspace(N threads, N rows, N inner, N columns)
      : chunk(this->template Add<char>(
            ChunksWorkspace<WidestMath, N>(threads, rows, Min(inner, N(kInner)), columns).bytes())),
        sums(this->template Add<float>(Min(N(1), inner / N(kInner + 1)) *
                                       Min(rows, N(kPackedRows)) * CeilDiv(columns, N(kPanel)) *
                                       N(kPanel))) {}
};
constexpr SizeText TapsText(int axes) {
  const SizeText ks = "ks", kh = "kh", kw = "kw";
  if (axes == 3) return ks * kh * kw;
  return kh * kw;
}
// The positions of y.
constexpr SizeText PlacesText() {
  const SizeText size = "size(y)", co = "co";
  return size / Max(co, SizeText(1));
}
// Of conv2d, conv3d and causal_conv2d.
template <int kAxes>
constexpr SizeText ConvBytes() {
  const SizeText co = "co", groups = "groups", cg = "cg", taps = TapsText(kAxes);
  return ProductsWorkspace<SizeText>("threads", co / groups, cg * taps, PlacesText()).bytes();
}
// Of the matrix form, whose sides change places where y has its channels last.
template <int kAxes>
constexpr SizeText ConvMatrixBytes() {
  const SizeText co = "co", cg = "cg", taps = TapsText(kAxes), places = PlacesText();
  return Max(ProductsWorkspace<SizeText>("threads", co, cg * taps, places).bytes(),
             ProductsWorkspace<SizeText>("threads", places, cg * taps, co).bytes());
}
// Of patch_embed.
constexpr SizeText PatchEmbedBytes() {
  const SizeText weight = "size(weight)", co = "co";
  return ProductsWorkspace<SizeText>("threads", "rows(y)", weight / Max(co, SizeText(1)), co)
      .bytes();
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
