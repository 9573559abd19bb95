// SPDX-License-Identifier: Apache-2.0
// square: y = weight * x^2, an operator of which only the reference matters, and gradients of it:
// a right one, and one with each defect.
//
//   dx[i, j] = 2 * dy[i, j] * weight[j] * x[i, j]     dweight[j] = sum_i dy[i, j] * x[i, j]^2
//
// Numerics  none: there is no kernel.
// Source    tests of the tests
#include "anyop/op.h"

#define SIGNATURE(name) \
  name "(x: T[..., d], weight: T[d]?) -> (y: T[..., d]) where T in f32 | bf16 | i32"
#define BACKWARD(name, dx, least)                                          \
  name "_backward(dy: T[..., d], x: T[..., d], weight: T[d]?) -> (dx: " dx \
       "[..., d]?, dweight: T[d]?) where T in f32 | bf16, d >= " least

namespace anyop::ops {

extern constinit const Op square{.signature = SIGNATURE("square"), .gradient = "square_backward"};
extern constinit const Op square_backward{.signature = BACKWARD("square", "T", "0")};
extern constinit const Op wrong_factor{.signature = SIGNATURE("wrong_factor"),
                                       .gradient = "wrong_factor_backward"};
extern constinit const Op wrong_factor_backward{.signature = BACKWARD("wrong_factor", "T", "0")};
extern constinit const Op wrong_element{.signature = SIGNATURE("wrong_element"),
                                        .gradient = "wrong_element_backward"};
extern constinit const Op wrong_element_backward{.signature = BACKWARD("wrong_element", "T", "0")};
extern constinit const Op forgets_row{.signature = SIGNATURE("forgets_row"),
                                      .gradient = "forgets_row_backward"};
extern constinit const Op forgets_row_backward{.signature = BACKWARD("forgets_row", "T", "0")};
extern constinit const Op sees_absence{.signature = SIGNATURE("sees_absence"),
                                       .gradient = "sees_absence_backward"};
extern constinit const Op sees_absence_backward{.signature = BACKWARD("sees_absence", "T", "0")};
extern constinit const Op sees_declined{.signature = SIGNATURE("sees_declined"),
                                        .gradient = "sees_declined_backward"};
extern constinit const Op sees_declined_backward{.signature = BACKWARD("sees_declined", "T", "0")};
extern constinit const Op too_strict{.signature = SIGNATURE("too_strict"),
                                     .gradient = "too_strict_backward"};
extern constinit const Op too_strict_backward{.signature = BACKWARD("too_strict", "T", "3")};
extern constinit const Op other_dtype{.signature = SIGNATURE("other_dtype"),
                                      .gradient = "other_dtype_backward"};
extern constinit const Op other_dtype_backward{.signature = BACKWARD("other_dtype", "f32", "0")};

}  // namespace anyop::ops
