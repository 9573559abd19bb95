// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

using Index = std::int64_t;

// The pixel coordinate of u; false: the point is nowhere near the image.
bool Locate(double u, Index size, bool border, bool align_corners, double* p) {
  *p = align_corners ? (u + 1) / 2 * double(size - 1) : ((u + 1) * double(size) - 1) / 2;
  if (border) {
    *p = std::isnan(*p) ? 0 : std::clamp(*p, 0.0, double(size - 1));
    return true;
  }
  return *p > -1 && *p < double(size);
}

void Run(const Context&, const Tensor& x, const Tensor& grid, std::string_view padding_mode,
         bool align_corners, std::string_view layout, const Tensor& y) {
  const bool last = layout == "NHWC", border = padding_mode == "border";
  const Index h = x.dim(last ? 1 : 2), w = x.dim(last ? 2 : 3), c = x.dim(last ? 3 : 1);
  const auto pixel = [&](Index n, Index ch, Index row, Index column) {
    if (row < 0 || row >= h || column < 0 || column >= w) return 0.0;
    const Index at = last ? row * x.stride(1) + column * x.stride(2) + ch
                          : ch * x.stride(1) + row * x.stride(2) + column;
    return Read(x, n * x.stride(0) + at);
  };
  for (Index n = 0; n < grid.dim(0); ++n) {
    for (Index i = 0; i < grid.dim(1); ++i) {
      for (Index j = 0; j < grid.dim(2); ++j) {
        const float* uv = grid.at<const float>(n, i, j);
        double px = 0, py = 0;
        const bool sees = Locate(double(uv[0]), w, border, align_corners, &px) &
                          Locate(double(uv[1]), h, border, align_corners, &py);
        for (Index ch = 0; ch < c; ++ch) {
          double sum = 0;
          if (sees) {
            const double fx = px - std::floor(px), fy = py - std::floor(py);
            const Index x0 = Index(std::floor(px)), y0 = Index(std::floor(py));
            sum = (1 - fy) * ((1 - fx) * pixel(n, ch, y0, x0) + fx * pixel(n, ch, y0, x0 + 1)) +
                  fy * ((1 - fx) * pixel(n, ch, y0 + 1, x0) + fx * pixel(n, ch, y0 + 1, x0 + 1));
          }
          *(last ? y.at<double>(n, i, j, ch) : y.at<double>(n, ch, i, j)) = sum;
        }
      }
    }
  }
}

}  // namespace

extern constinit const Reference grid_sample_reference{.op = "grid_sample", .run = Bind<&Run>()};

}  // namespace anyop::ops
