// SPDX-License-Identifier: Apache-2.0
// embedding_backward: the gradient of embedding: rows of dy, added up by id.
//
//   dweight[r] = sum of dy[i] over all i with ids[i] = r; 0 where there is none
//
//   ids          a negative one has no gradient
//   weight       looked at for its shape only
//   padding_idx  the row that gets no gradient, -1 for none
//
// Numerics  Rows are added in rising order of i, in f32, rounded once.
// Source    the definition of embedding.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op embedding_backward{
    .signature =
        "embedding_backward(dy: T[..., d], ids: I[...] below v, weight: T[v, d], "
        "padding_idx: int) -> (dweight: T[v, d]?) where T in f32 | f16 | bf16, I in i32 | i64",
    .flops = "size(dy)",
    .bytes = "bytes(dy) + bytes(ids) + bytes(dweight)",
};

}  // namespace anyop::ops
