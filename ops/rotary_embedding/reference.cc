// SPDX-License-Identifier: Apache-2.0
#include "ops/common/rotation/reference.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor* positions, const Tensor& query, const Tensor* key,
         const Tensor& table, std::int64_t offset, std::string_view style, bool inverse) {
  RotateReference(positions, table, offset, style, inverse, query, query);
  if (key) RotateReference(positions, table, offset, style, inverse, *key, *key);
}

}  // namespace

extern constinit const Reference rotary_embedding_reference{.op = "rotary_embedding",
                                                            .run = Bind<&Run>()};

}  // namespace anyop::ops
