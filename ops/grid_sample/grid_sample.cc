// SPDX-License-Identifier: Apache-2.0
// grid_sample: images at points between their pixels, by bilinear interpolation.
//
//   y = (1-fx)(1-fy)*x[y0, x0] + fx(1-fy)*x[y0, x0+1] + (1-fx)fy*x[y0+1, x0] + fx*fy*x[y0+1, x0+1]
//
//   x0 = floor(px), fx = px - x0, (u, v) = grid[n, i, j]; y0 and fy likewise from v
//   px = (u + 1)/2 * (w - 1) with align_corners, else ((u + 1)*w - 1)/2
//
//   grid           (x, y) of each point, -1 ... 1 across the image
//   padding_mode   'border': px is clamped to 0 ... w - 1; 'zeros': pixels outside count 0
//   align_corners  whether -1 and 1 are the centres of the outer pixels, or their edges
//   layout         NHWC is [n, h, w, c], NCHW [n, c, h, w], of x and y
//
// Numerics  Coordinates, weights and sums in f32, one rounding. NaN in the grid is the coordinate 0
//           in border mode and gives 0 in zeros mode; an infinity is clamped, or gives 0. Pixels
//           outside are not read.
// Source    PyTorch 2.13, torch.nn.functional.grid_sample.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op grid_sample{
    .signature =
        "grid_sample(x: T[n, h, w, c], grid: f32[n, ho, wo, 2], "
        "padding_mode: 'zeros' | 'border' = 'border', align_corners: bool = False, "
        "layout: 'NHWC' = 'NHWC') -> (y: T[n, ho, wo, c]) "
        "where T in f32 | f16 | bf16, h >= 1, w >= 1\n"
        "grid_sample(x: T[n, c, h, w], grid: f32[n, ho, wo, 2], "
        "padding_mode: 'zeros' | 'border' = 'border', align_corners: bool = False, "
        "layout: 'NCHW') -> (y: T[n, c, ho, wo]) "
        "where T in f32 | f16 | bf16, h >= 1, w >= 1",
    .flops = "11 * size(y)",
    .bytes = "5 * bytes(y) + bytes(grid)",
};

}  // namespace anyop::ops
