// SPDX-License-Identifier: Apache-2.0
// Lists of block copies: mapping[i] = (from, to). A pair with a negative entry is skipped.
#pragma once
#include <cstring>
#include <string>

#include "anyop/op.h"
#include "ops/common/check_data.h"
#include "ops/common/stream.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

struct BlockPair {
  std::int64_t from, to;
  bool is_skipped() const { return from < 0 || to < 0; }
};

inline BlockPair ReadPair(const Tensor& mapping, std::int64_t i) {
  const std::int64_t row = mapping.row_offset(i);
  return {ReadIndex(mapping, row), ReadIndex(mapping, row + 1)};
}

// Refuses entries of pairs in use that are no block. what: "blocks of src".
inline void CheckPairs(const Tensor& mapping, std::int64_t from_blocks, const char* from_what,
                       std::int64_t to_blocks, const char* to_what) {
  const auto refuse = [](std::int64_t i, int column, std::int64_t value, std::int64_t blocks,
                         const char* what) {
    Refuse("mapping[" + std::to_string(i) + ", " + std::to_string(column) + "] is " +
           std::to_string(value) + ", but must be less than " + std::to_string(blocks) + " (" +
           what + ").");
  };
  for (std::int64_t i = 0; i < mapping.dim(0); ++i) {
    const BlockPair pair = ReadPair(mapping, i);
    if (pair.is_skipped()) continue;
    if (pair.from >= from_blocks) refuse(i, 0, pair.from, from_blocks, from_what);
    if (pair.to >= to_blocks) refuse(i, 1, pair.to, to_blocks, to_what);
  }
}

// Refuses a block that two pairs write and, with is_one_cache, one that a pair writes and another
// reads: which comes first is left open. A block that is copied onto itself is neither.
inline void CheckOrderIsNoMatter(const Tensor& mapping, bool is_one_cache) {
  const auto place = [](std::int64_t i, int column) {
    return "mapping[" + std::to_string(i) + ", " + std::to_string(column) + "]";
  };
  const auto for_pairs = [&](auto&& f) {
    for (std::int64_t i = 0; i < mapping.dim(0); ++i) {
      const BlockPair pair = ReadPair(mapping, i);
      const bool does_nothing = pair.is_skipped() || (is_one_cache && pair.from == pair.to);
      if (!does_nothing) f(i, pair);
    }
  };
  Distinct targets;
  for_pairs([&](std::int64_t i, BlockPair pair) {
    targets.Add(pair.to, place(i, 1), "either copy may come last");
  });
  if (!is_one_cache) return;
  for_pairs([&](std::int64_t i, BlockPair pair) {
    targets.CheckIsNew(pair.from, place(i, 0), "either copy may come first");
  });
}

// Copies blocks of both tensors, [blocks, w]; one may be copied onto itself.
class BlockCopier {
 public:
  // pairs: of the whole call, in all tensors.
  BlockCopier(const Context& ctx, std::int64_t pairs, const Tensor& src)
      : element_(Bytes(src.type())),
        bytes_(src.dim(1) * element_),
        streams_(Streams(ctx, 2 * pairs * bytes_)) {}

  void Copy(const Tensor& src, const Tensor& dst, BlockPair pair) const {
    char* to = dst.base<char>() + pair.to * dst.stride(0) * element_;
    const char* from = src.base<const char>() + pair.from * src.stride(0) * element_;
    if (to == from) return;
    if (streams_) {
      StreamCopy(to, from, bytes_);
    } else {
      std::memmove(to, from, std::size_t(bytes_));
    }
  }
  // To be called where a thread's copies end.
  void End() const {
    if (streams_) EndStream();
  }

 private:
  std::int64_t element_, bytes_;
  bool streams_;
};

// Blocks worth 2 us: a copy moves 10 bytes a nanosecond and takes 20 ns to begin.
inline std::int64_t BlockGrain(const Tensor& t) {
  return std::int64_t(2000 / (double(t.dim(1)) * Bytes(t.type()) * 0.1 + 20)) + 1;
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
