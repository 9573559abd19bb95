// SPDX-License-Identifier: Apache-2.0
// Products of rows in groups, each group with a weight of its own: describe the call, give a
// GroupedWorkspace, run.
#pragma once
#include <algorithm>
#include <cstdint>

#include "ops/common/gemm/bytes.h"
#include "ops/common/gemm/pack.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Rows that are packed and multiplied at a time: whole groups, or parts of one that is larger. This
// bounds the workspace.
inline constexpr std::int64_t kWaveRows = 2048;

// y[r] = x[r] weight[g]^T + bias[g] for rows offsets[g] <= r < offsets[g + 1].
struct GroupedCall {
  DType type;                   // of the weights and biases, and of x: f32, f16, bf16; i8 for bytes
  std::int64_t groups, k, n;    // weight[g] is [n, k]
  const std::int64_t* offsets;  // [groups + 1]
  const void* const* x;         // where each row is; bytes end with zeros up to a multiple of 4
  const void* weight;
  std::int64_t weight_stride, row_stride;  // in elements; packed weights have no row_stride
  bool is_packed;
  const Tensor* bias;  // [groups, n]
  void* y;             // [rows, n]
  std::int64_t y_stride;
  DType y_type;
  // For bytes: the scale and the sum of each row of x, and the scales of weights, [groups, n].
  const float* x_scale;
  const std::int32_t* x_sum;
  const Tensor* weight_scale;

  std::int64_t rows() const { return offsets[groups]; }
};

// A group of the rows that are multiplied now, or a part of it.
struct GroupPart {
  std::int64_t group, first, rows;
  std::int64_t left;  // rows that were packed before
  std::int64_t item;  // the first of its pieces of work
};

// steps: along k, of packed panels.
template <class M, class N>
struct GroupedWorkspace : Workspace<N> {
  Part<typename M::Left, N> left;      // [rows][LeftSteps][2]
  Part<typename M::Weight, N> panels;  // [threads][steps][32][2]; none for packed weights
  Part<unsigned char, N> taken;        // [threads]
  Part<GroupPart, N> parts;
  constexpr GroupedWorkspace(N threads, N rows, N groups, N steps)
      : left(this->template Add<typename M::Left>(LeftElements<M>(Min(rows, N(kWaveRows)), steps))),
        panels(this->template Add<typename M::Weight>(threads * steps * N(kStepWeights))),
        taken(this->template Add<unsigned char>(threads)),
        parts(this->template Add<GroupPart>(Min(Min(rows, N(kWaveRows)), groups))) {}
};

// What WidestMath is for floats.
#if defined(__AVX512VNNI__)
using WidestBytesMath = DotBytesMath<I8x2>;
#else
using WidestBytesMath = WideBytesMath<I8x2>;
#endif

// memory: of a GroupedWorkspace of WidestMath or WidestBytesMath with this layout. Defined once for
// each instruction set, in files of this folder; those of dot instructions take bf16 or bytes only.
void MultiplyGroups(const Context& ctx, const GroupedCall& call, char* memory);

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
