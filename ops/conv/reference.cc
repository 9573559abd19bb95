// SPDX-License-Identifier: Apache-2.0
// Every operator of this folder by its definition: a visit of each product that a sum has.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

using Index = std::int64_t;
using List = std::span<const Index>;
using Indices = std::vector<Index>;

// Counts through all indices below `sizes`, the last one fastest.
template <class F>
void ForAll(const Indices& sizes, F&& f) {
  Indices at(sizes.size(), 0);
  for (const Index size : sizes) {
    if (size == 0) return;
  }
  for (;;) {
    f(at);
    std::size_t a = sizes.size();
    while (a > 0 && ++at[a - 1] == sizes[a - 1]) at[--a] = 0;
    if (a == 0) return;
  }
}

Indices AxesOf(const Tensor& t) { return Indices(t.shape + 2, t.shape + t.ndim); }

Index Offset(const Tensor& t, Index first, Index second, const Indices& rest) {
  Index offset = first * t.stride(0) + second * t.stride(1);
  for (std::size_t a = 0; a < rest.size(); ++a) offset += rest[a] * t.stride(int(a) + 2);
  return offset;
}

struct Sliding {
  Indices out, stride, dilation, top;
  Index groups;
};

Indices TopOf(const Tensor& weight, List padding, List dilation, std::string_view pad) {
  Indices top(padding.size(), 0);
  for (std::size_t a = 0; a < top.size(); ++a) {
    if (pad == "given") top[a] = padding[a];
    if (pad == "same") top[a] = dilation[a] * (weight.dim(int(a) + 2) - 1) / 2;
  }
  return top;
}

// Calls f(n, o, position, c of the group, tap, channel of x, place in x) for every product; places
// may lie outside.
template <class F>
void ForProducts(const Tensor& x, const Tensor& weight, const Sliding& s, F&& f) {
  const Index filters = weight.dim(0), cg = weight.dim(1);
  for (Index n = 0; n < x.dim(0); ++n) {
    for (Index o = 0; o < filters; ++o) {
      const Index g = o / (filters / s.groups);
      ForAll(s.out, [&](const Indices& position) {
        for (Index c = 0; c < cg; ++c) {
          ForAll(AxesOf(weight), [&](const Indices& tap) {
            Indices place(tap.size());
            for (std::size_t a = 0; a < tap.size(); ++a) {
              place[a] = position[a] * s.stride[a] - s.top[a] + tap[a] * s.dilation[a];
            }
            f(n, o, position, c, tap, g * cg + c, place);
          });
        }
      });
    }
  }
}

bool IsInside(const Tensor& x, const Indices& place) {
  for (std::size_t a = 0; a < place.size(); ++a) {
    if (place[a] < 0 || place[a] >= x.dim(int(a) + 2)) return false;
  }
  return true;
}

// y_at(n, o, position) is the place of an element of y or dy.
template <class Y>
void Forward(const Tensor& x, const Tensor& weight, const Tensor* bias, const Tensor* cache,
             const Sliding& s, const Tensor& y, Y&& y_at) {
  double* out = y.base<double>();
  for (Index n = 0; n < x.dim(0); ++n) {
    for (Index o = 0; o < weight.dim(0); ++o) {
      ForAll(s.out, [&](const Indices& at) { out[y_at(n, o, at)] = bias ? Read(*bias, o) : 0; });
    }
  }
  ForProducts(
      x, weight, s,
      [&](Index n, Index o, const Indices& position, Index c, const Indices& tap, Index channel,
          const Indices& place) {
        double value = 0;
        if (IsInside(x, place)) value = Read(x, Offset(x, n, channel, place));
        if (cache && place[0] < 0 && place[1] >= 0 && place[1] < cache->dim(3)) {
          value = Read(*cache, Offset(*cache, n, channel, {place[0] + cache->dim(2), place[1]}));
        }
        out[y_at(n, o, position)] += value * Read(weight, Offset(weight, o, c, tap));
      });
}

void Clear(const Tensor* t) {
  for (Index r = 0; t && r < t->rows(); ++r) {
    for (Index j = 0; j < t->row_size(); ++j) t->base<double>()[t->row_offset(r) + j] = 0;
  }
}

template <class Y>
void Backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Sliding& s, Y&& y_at,
              const Tensor* dx, const Tensor* dweight, const Tensor* dbias) {
  for (const Tensor* t : {dx, dweight, dbias}) Clear(t);
  for (Index n = 0; n < x.dim(0) && dbias; ++n) {
    for (Index o = 0; o < weight.dim(0); ++o) {
      ForAll(s.out,
             [&](const Indices& at) { dbias->base<double>()[o] += Read(dy, y_at(n, o, at)); });
    }
  }
  ForProducts(x, weight, s,
              [&](Index n, Index o, const Indices& position, Index c, const Indices& tap,
                  Index channel, const Indices& place) {
                if (!IsInside(x, place)) return;
                const double d = Read(dy, y_at(n, o, position));
                if (dx) {
                  dx->base<double>()[Offset(*dx, n, channel, place)] +=
                      d * Read(weight, Offset(weight, o, c, tap));
                }
                if (dweight) {
                  dweight->base<double>()[Offset(*dweight, o, c, tap)] +=
                      d * Read(x, Offset(x, n, channel, place));
                }
              });
}

Indices ListOf(List list) { return Indices(list.begin(), list.end()); }

auto PlanesOf(const Tensor& y) {
  return [&y](Index n, Index o, const Indices& at) { return Offset(y, n, o, at); };
}

void Conv(const Context&, const Tensor& x, const Tensor& weight, const Tensor* bias, List stride,
          List padding, List dilation, Index groups, std::string_view pad, const Tensor& y) {
  const Sliding s{AxesOf(y), ListOf(stride), ListOf(dilation),
                  TopOf(weight, padding, dilation, pad), groups};
  Forward(x, weight, bias, nullptr, s, y, PlanesOf(y));
}

void ConvBackward(const Context&, const Tensor& dy, const Tensor& x, const Tensor& weight,
                  List stride, List padding, List dilation, Index groups, std::string_view pad,
                  const Tensor* dx, const Tensor* dweight, const Tensor* dbias) {
  const Sliding s{AxesOf(dy), ListOf(stride), ListOf(dilation),
                  TopOf(weight, padding, dilation, pad), groups};
  Backward(dy, x, weight, s, PlanesOf(dy), dx, dweight, dbias);
}

void CausalConv2d(const Context&, const Tensor& x, const Tensor& weight, const Tensor* bias,
                  const Tensor* cache, List stride, Index padding_w, List dilation, Index groups,
                  const Tensor& y) {
  const Sliding s{AxesOf(y),
                  ListOf(stride),
                  ListOf(dilation),
                  {dilation[0] * (weight.dim(2) - 1), padding_w},
                  groups};
  Forward(x, weight, bias, cache, s, y, PlanesOf(y));
}

Sliding Patches(const Tensor& x, const Tensor& weight) {
  const Indices kernel = AxesOf(weight), ones(kernel.size(), 1), none(kernel.size(), 0);
  Indices out = AxesOf(x);
  for (std::size_t a = 0; a < out.size(); ++a) out[a] /= kernel[a];
  return {out, kernel, ones, none, 1};
}
auto TokensOf(const Tensor& y, const Sliding& s) {
  return [&y, &s](Index n, Index o, const Indices& at) {
    Index q = 0;
    for (std::size_t a = 0; a < at.size(); ++a) q = q * s.out[a] + at[a];
    return Offset(y, n, q, {o});
  };
}

void PatchEmbed(const Context&, const Tensor& x, const Tensor& weight, const Tensor* bias,
                const Tensor& y) {
  const Sliding s = Patches(x, weight);
  Forward(x, weight, bias, nullptr, s, y, TokensOf(y, s));
}

void PatchEmbedBackward(const Context&, const Tensor& dy, const Tensor& x, const Tensor& weight,
                        const Tensor* dx, const Tensor* dweight, const Tensor* dbias) {
  const Sliding s = Patches(x, weight);
  Backward(dy, x, weight, s, TokensOf(dy, s), dx, dweight, dbias);
}

}  // namespace

extern constinit const Reference conv2d_reference{.op = "conv2d", .run = Bind<&Conv>()};
extern constinit const Reference conv3d_reference{.op = "conv3d", .run = Bind<&Conv>()};
extern constinit const Reference conv2d_backward_reference{.op = "conv2d_backward",
                                                           .run = Bind<&ConvBackward>()};
extern constinit const Reference conv3d_backward_reference{.op = "conv3d_backward",
                                                           .run = Bind<&ConvBackward>()};
extern constinit const Reference causal_conv2d_reference{.op = "causal_conv2d",
                                                         .run = Bind<&CausalConv2d>()};
extern constinit const Reference patch_embed_reference{.op = "patch_embed",
                                                       .run = Bind<&PatchEmbed>()};
extern constinit const Reference patch_embed_backward_reference{.op = "patch_embed_backward",
                                                                .run = Bind<&PatchEmbedBackward>()};

}  // namespace anyop::ops
