// SPDX-License-Identifier: Apache-2.0
// Where the token at a logical position lives in a paged cache: position p of a sequence is in
// block table[p / block_size] at offset p % block_size; its slot is block * block_size + offset.
#pragma once
#include <cstdint>
#include <limits>
#include <string>

#include "anyop/op.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// One row of a block table, [mb], and the slots of its positions.
class SlotTable {
 public:
  SlotTable(const Tensor& block_table, std::int64_t row, std::int64_t block_size)
      : table_(block_table),
        offset_(block_table.row_offset(row)),
        blocks_(block_table.dim(1)),
        block_size_(block_size) {}

  // Turns to the block of this position (>= 0); false if the table is too short for it.
  // Positions mostly rise by one: staying in a block saves the division.
  bool Seek(std::int64_t position) {
    if (std::uint64_t(position) - std::uint64_t(first_) < std::uint64_t(block_size_)) return true;
    const std::int64_t column = position / block_size_;
    if (column >= blocks_) return false;
    first_ = column * block_size_;
    block_ = ReadIndex(table_, offset_ + column);
    overflows_ = __builtin_mul_overflow(block_, block_size_, &base_);
    return true;
  }

  // The slot of a position in the block turned to, or -1 where the table has no block.
  std::int64_t Slot(std::int64_t position) const {
    return block_ < 0 ? -1 : base_ + (position - first_);
  }
  // Whether that slot is at most `limit`.
  bool Fits(std::int64_t position, std::int64_t limit) const {
    return block_ < 0 || (!overflows_ && base_ <= limit - (position - first_));
  }

 private:
  const Tensor& table_;
  std::int64_t offset_, blocks_, block_size_;
  // At first no block: more than any block size below every position.
  std::int64_t first_ = std::numeric_limits<std::int64_t>::min(), block_ = -1, base_ = 0;
  bool overflows_ = false;
};

// "positions[7] is 640, but must be less than 512 (32 blocks of 16, the width of block_table)."
[[noreturn]] inline void RefusePosition(const char* name, std::int64_t i, std::int64_t position,
                                        std::int64_t blocks, std::int64_t block_size,
                                        const char* table) {
  Refuse(std::string(name) + "[" + std::to_string(i) + "] is " + std::to_string(position) +
         ", but must be less than " + std::to_string(blocks * block_size) + " (" +
         std::to_string(blocks) + " blocks of " + std::to_string(block_size) + ", the width of " +
         table + ").");
}

// i: the token; row: of the block table.
[[noreturn]] inline void RefuseSlot(std::int64_t i, std::int64_t row, const char* table,
                                    DType dtype) {
  Refuse("slot_mapping[" + std::to_string(i) + "] would not fit " + std::string(Name(dtype)) +
         ", because a block in row " + std::to_string(row) + " of " + table + " is too large.");
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
