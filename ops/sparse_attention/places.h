// SPDX-License-Identifier: Apache-2.0
// Where the key of an index lies.
#pragma once
#include "ops/common/blocks/block_table.h"

namespace anyop::ops {
namespace {

class IndexedKeys {
 public:
  // is_physical: an index is a slot, block * block_size + offset, and the tensors after block_size
  // are not looked at. Otherwise none of them is null.
  IndexedKeys(const Tensor& indices, std::int64_t block_size, const Tensor* block_table,
              const Tensor* seq_lens, const Tensor* query_start_loc, bool is_physical)
      : indices_(indices),
        block_size_(block_size),
        table_(is_physical ? nullptr : block_table),
        lens_(seq_lens),
        starts_(query_start_loc) {}

  // Of a token; -1 for one after the last sequence, which has no keys.
  std::int64_t Sequence(std::int64_t token) const {
    if (!table_) return 0;
    const std::int64_t sequences = lens_->dim(0);
    const std::int64_t s = FindToken(starts_, sequences, token).sequence;
    return s < sequences ? s : -1;
  }
  std::int64_t Index(std::int64_t token, std::int64_t i) const {
    return ReadIndex(indices_, token * indices_.stride(0) + i);
  }
  // Whether an index names a key at all, one that the table may hide yet.
  bool IsKey(std::int64_t sequence, std::int64_t index) const {
    return index >= 0 && (!table_ || index < ReadIndex(*lens_, sequence));
  }
  // Index i of a token; block -1: none.
  KeyPlace Find(std::int64_t token, std::int64_t sequence, std::int64_t i) const {
    const std::int64_t index = Index(token, i);
    if (!IsKey(sequence, index)) return {-1, 0};
    const std::int64_t column = index / block_size_;
    return {table_ ? ReadIndex(*table_, sequence * table_->stride(0) + column) : column,
            index % block_size_};
  }

 private:
  const Tensor& indices_;  // [t, n]
  std::int64_t block_size_;
  const Tensor *table_, *lens_, *starts_;
};

}  // namespace
}  // namespace anyop::ops
