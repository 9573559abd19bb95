// SPDX-License-Identifier: Apache-2.0
// linear, linear_packed and linear_backward with 8 lanes.

#include "ops/linear/backward.h"
#include "ops/linear/linear.h"

namespace anyop::ops {

extern constinit const Kernel linear_avx2_f32{.name = "cpu_avx2_f32",
                                              .when = "T == f32",
                                              .workspace = ANYOP_LINEAR_WORKSPACE(4),
                                              .run = Bind<&RunLinear<PairMath<float>>>()};

extern constinit const Kernel linear_packed_avx2_f32{
    .name = "cpu_avx2_f32",
    .when = "T == f32",
    .workspace = ANYOP_LINEAR_PACKED_WORKSPACE(4),
    .run = Bind<&RunLinearPacked<PairMath<float>>>()};

extern constinit const Kernel linear_avx2_f16{.name = "cpu_avx2_f16",
                                              .when = "T == f16",
                                              .workspace = ANYOP_LINEAR_WORKSPACE(4),
                                              .run = Bind<&RunLinear<PairMath<F16>>>()};

extern constinit const Kernel linear_packed_avx2_f16{
    .name = "cpu_avx2_f16",
    .when = "T == f16",
    .workspace = ANYOP_LINEAR_PACKED_WORKSPACE(4),
    .run = Bind<&RunLinearPacked<PairMath<F16>>>()};

extern constinit const Kernel linear_avx2_bf16{.name = "cpu_avx2_bf16",
                                               .when = "T == bf16",
                                               .workspace = ANYOP_LINEAR_WORKSPACE(4),
                                               .run = Bind<&RunLinear<SplitMath>>()};

extern constinit const Kernel linear_packed_avx2_bf16{.name = "cpu_avx2_bf16",
                                                      .when = "T == bf16",
                                                      .workspace = ANYOP_LINEAR_PACKED_WORKSPACE(4),
                                                      .run = Bind<&RunLinearPacked<SplitMath>>()};

extern constinit const Kernel linear_backward_avx2_f32{
    .name = "cpu_avx2_f32",
    .when = "T == f32",
    .workspace = ANYOP_LINEAR_BACKWARD_WORKSPACE(4),
    .run = Bind<&RunLinearBackward<PairMath<float>>>()};

extern constinit const Kernel linear_backward_avx2_f16{
    .name = "cpu_avx2_f16",
    .when = "T == f16",
    .workspace = ANYOP_LINEAR_BACKWARD_WORKSPACE(4),
    .run = Bind<&RunLinearBackward<PairMath<F16>>>()};

extern constinit const Kernel linear_backward_avx2_bf16{
    .name = "cpu_avx2_bf16",
    .when = "T == bf16",
    .workspace = ANYOP_LINEAR_BACKWARD_WORKSPACE(4),
    .run = Bind<&RunLinearBackward<SplitMath>>()};

}  // namespace anyop::ops
