// SPDX-License-Identifier: Apache-2.0
// Tokens in the order of their adapters, so that an adapter is read once for all of its tokens.
#pragma once
#include <algorithm>
#include <cstdint>

#include "ops/common/elementwise.h"

namespace anyop::ops {
namespace {

using Index = std::int64_t;

// A token and its adapter.
struct Use {
  Index adapter, token;
};

// uses: room for one of each token. Those without an adapter are left out; returns how many remain.
inline Index SortUses(const Tensor& indices, Use* uses) {
  Index n = 0;
  for (Index i = 0; i < indices.dim(0); ++i) {
    const Index adapter = ReadIndex(indices, i);
    if (adapter >= 0) uses[n++] = {adapter, i};
  }
  std::sort(uses, uses + n, [](const Use& a, const Use& b) {
    return a.adapter != b.adapter ? a.adapter < b.adapter : a.token < b.token;
  });
  return n;
}

}  // namespace
}  // namespace anyop::ops
