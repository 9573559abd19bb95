// SPDX-License-Identifier: Apache-2.0
// Parameter structs. Brace lists choose a struct by their number of members, so every constructor
// stays non-explicit.
#pragma once
#include "anyop_ascend/types.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {

// How often a vector instruction repeats. The device takes a uint8_t, so that 256 becomes 0 there.
class AnyopTimes {
 public:
  template <class V>
  AnyopTimes(V given) : given_(static_cast<std::int64_t>(given)) {}  // NOLINT
  // Says what is cut, and where nothing is left to do.
  std::int32_t Of(rt::Site site) const {
    if (kChecked && (given_ < 1 || given_ > 255)) rt::CheckTimes(given_, site);
    return static_cast<std::uint8_t>(given_);
  }

 private:
  std::int64_t given_;
};

struct DataCopyParams {  // lengths and gaps in units of 32 bytes
  std::uint16_t blockCount = 1;
  std::uint16_t blockLen = 0;
  std::uint16_t srcStride = 0;
  std::uint16_t dstStride = 0;

  DataCopyParams() = default;
  DataCopyParams(std::uint16_t count, std::uint16_t length, std::uint16_t src, std::uint16_t dst)
      : blockCount(count), blockLen(length), srcStride(src), dstStride(dst) {}
};

struct DataCopyExtParams {  // of DataCopyPad: length and the gap in global memory in bytes
  std::uint16_t blockCount = 1;
  std::uint32_t blockLen = 0;
  std::uint32_t srcStride = 0;
  std::uint32_t dstStride = 0;
  std::uint32_t rsv = 0;

  DataCopyExtParams() = default;
  DataCopyExtParams(std::uint16_t count, std::uint32_t length, std::uint32_t src, std::uint32_t dst,
                    std::uint32_t reserved)
      : blockCount(count), blockLen(length), srcStride(src), dstStride(dst), rsv(reserved) {}
};

struct DataCopyPadParams {
  bool isPad = false;
  std::uint8_t leftPadding = 0;
  std::uint8_t rightPadding = 0;
  std::uint64_t paddingValue = 0;

  DataCopyPadParams() = default;
  DataCopyPadParams(bool pads, std::uint8_t left, std::uint8_t right, std::uint64_t value)
      : isPad(pads), leftPadding(left), rightPadding(right), paddingValue(value) {}
};

template <class T>
struct DataCopyPadExtParams {
  bool isPad = false;
  std::uint8_t leftPadding = 0;
  std::uint8_t rightPadding = 0;
  T paddingValue = T(0);

  DataCopyPadExtParams() = default;
  template <class V>
  DataCopyPadExtParams(bool pads, std::uint8_t left, std::uint8_t right, V value)
      : isPad(pads), leftPadding(left), rightPadding(right), paddingValue(T(value)) {}
};

struct DataCopyEnhancedParams {
  BlockMode blockMode = BlockMode::BLOCK_MODE_NORMAL;
  DeqScale deqScale = DeqScale::DEQ_NONE;
  std::uint64_t deqValue = 0;
  std::uint8_t sidStoreMode = 0;
  bool isRelu = false;
  int padMode = 0;
  std::uint64_t padValue = 0;
};

struct UnaryRepeatParams {
  std::uint32_t blockNumber = 8;
  std::uint16_t dstBlkStride = 1;
  std::uint16_t srcBlkStride = 1;
  std::uint8_t dstRepStride = 8;
  std::uint8_t srcRepStride = 8;
  bool repeatStrideMode = false;
  bool strideSizeMode = false;
  bool halfBlock = false;

  UnaryRepeatParams() = default;
  UnaryRepeatParams(std::uint16_t dst_block, std::uint16_t src_block, std::uint8_t dst_repeat,
                    std::uint8_t src_repeat, bool half_block = false)
      : dstBlkStride(dst_block),
        srcBlkStride(src_block),
        dstRepStride(dst_repeat),
        srcRepStride(src_repeat),
        halfBlock(half_block) {}
};

struct BinaryRepeatParams {
  std::uint32_t blockNumber = 8;
  std::uint8_t dstBlkStride = 1;
  std::uint8_t src0BlkStride = 1;
  std::uint8_t src1BlkStride = 1;
  std::uint8_t dstRepStride = 8;
  std::uint8_t src0RepStride = 8;
  std::uint8_t src1RepStride = 8;
  bool repeatStrideMode = false;
  bool strideSizeMode = false;

  BinaryRepeatParams() = default;
  BinaryRepeatParams(std::uint8_t dst_block, std::uint8_t src0_block, std::uint8_t src1_block,
                     std::uint8_t dst_repeat, std::uint8_t src0_repeat, std::uint8_t src1_repeat)
      : dstBlkStride(dst_block),
        src0BlkStride(src0_block),
        src1BlkStride(src1_block),
        dstRepStride(dst_repeat),
        src0RepStride(src0_repeat),
        src1RepStride(src1_repeat) {}
};

struct CopyRepeatParams {
  std::uint16_t dstStride = 1;
  std::uint16_t srcStride = 1;
  std::uint16_t dstRepeatSize = 8;
  std::uint16_t srcRepeatSize = 8;

  CopyRepeatParams() = default;
  CopyRepeatParams(std::uint16_t dst, std::uint16_t src, std::uint16_t dst_repeat,
                   std::uint16_t src_repeat)
      : dstStride(dst), srcStride(src), dstRepeatSize(dst_repeat), srcRepeatSize(src_repeat) {}
};

struct BrcbRepeatParams {
  std::uint16_t dstBlkStride = 1;
  std::uint16_t dstRepStride = 8;

  BrcbRepeatParams() = default;
  BrcbRepeatParams(std::uint16_t block, std::uint16_t repeat)
      : dstBlkStride(block), dstRepStride(repeat) {}
};

struct GatherRepeatParams {
  std::uint32_t blockNumber = 8;
  std::uint16_t dstBlkStride = 1;
  std::uint8_t dstRepStride = 8;

  GatherRepeatParams() = default;
  GatherRepeatParams(std::uint16_t block, std::uint8_t repeat)
      : dstBlkStride(block), dstRepStride(repeat) {}
};

struct GatherMaskParams {
  std::uint8_t src0BlockStride = 1;
  std::uint16_t repeatTimes = 1;
  std::uint16_t src0RepeatStride = 8;
  std::uint8_t src1RepeatStride = 0;

  GatherMaskParams() = default;
  GatherMaskParams(std::uint8_t block, std::uint16_t repeats, std::uint16_t src0, std::uint8_t src1)
      : src0BlockStride(block),
        repeatTimes(repeats),
        src0RepeatStride(src0),
        src1RepeatStride(src1) {}
};

struct MrgSort4Info {
  std::uint16_t elementLengths[4] = {};
  bool ifExhaustedSuspension = false;
  std::uint16_t validBit = 0;
  std::uint8_t repeatTimes = 1;

  MrgSort4Info() = default;
  MrgSort4Info(const std::uint16_t lengths[4], bool suspends, std::uint16_t valid,
               std::uint8_t repeats)
      : ifExhaustedSuspension(suspends), validBit(valid), repeatTimes(repeats) {
    std::memcpy(elementLengths, lengths, sizeof elementLengths);
  }
};

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
