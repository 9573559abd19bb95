// SPDX-License-Identifier: Apache-2.0
// Tiling of RmsNorm, SoftMax and TopK, in kernels and in host code.
#pragma once
#include <cstdint>

// Tiling of extended functions, which host code fills in; here only the sizes of rows are read.
struct RmsNormTiling {
  std::uint32_t bLength = 0;
  std::uint32_t sLength = 0;
  std::uint32_t hLength = 0;          // elements from row to row
  std::uint32_t originalHLength = 0;  // elements of a row that count
  float reciprocalOfHLength = 0;
  std::uint32_t mainBshLength = 0;
  std::uint32_t mainBsLength = 0;
  std::uint32_t mainBsLengthAlign = 0;
  std::uint32_t loopRound = 0;
  std::uint32_t inputTailPos = 0;
  std::uint32_t tailBshLength = 0;
  std::uint32_t tailBsLength = 0;
};
struct SoftMaxTiling {
  std::uint32_t srcM = 0;  // rows
  std::uint32_t srcK = 0;  // elements of each
  std::uint32_t srcSize = 0;
  std::uint32_t outMaxM = 0;
  std::uint32_t outMaxK = 0;
  std::uint32_t outMaxSize = 0;
  std::uint32_t splitM = 0;
  std::uint32_t splitK = 0;
  std::uint32_t splitSize = 0;
  std::uint32_t reduceM = 0;
  std::uint32_t reduceK = 0;
  std::uint32_t reduceSize = 0;
  std::uint32_t rangeM = 0;
  std::uint32_t tailM = 0;
  std::uint32_t tailSplitSize = 0;
  std::uint32_t tailReduceSize = 0;
};
struct TopkTiling {
  std::int32_t tmpLocalSize = 0;
  std::int32_t allDataSize = 0;
  std::int32_t innerDataSize = 0;
  std::uint32_t sortRepeat = 0;
  std::int32_t mrgSortRepeat = 0;
  std::int32_t kAlignFourBytes = 0;
  std::int32_t kAlignTwoBytes = 0;
  std::int32_t maskOffset = 0;
  std::int32_t maskVreducev2FourBytes = 0;
  std::int32_t maskVreducev2TwoBytes = 0;
  std::int32_t mrgSortSrc1offset = 0;
  std::int32_t mrgSortSrc2offset = 0;
  std::int32_t mrgSortSrc3offset = 0;
  std::int32_t mrgSortTwoQueueSrc1Offset = 0;
  std::int32_t mrgFourQueueTailPara1 = 0;
  std::int32_t mrgFourQueueTailPara2 = 0;
  std::int32_t srcIndexOffset = 0;
  std::uint32_t copyUbToUbBlockCount = 0;
  std::int32_t topkMrgSrc1MaskSizeOffset = 0;
  std::int32_t topkNSmallSrcIndexOffset = 0;
  std::uint32_t vreduceValMask0 = 0;
  std::uint32_t vreduceValMask1 = 0;
  std::uint32_t vreduceIdxMask0 = 0;
  std::uint32_t vreduceIdxMask1 = 0;
  std::uint16_t vreducehalfValMask0 = 0;
  std::uint16_t vreducehalfValMask1 = 0;
  std::uint16_t vreducehalfValMask2 = 0;
  std::uint16_t vreducehalfValMask3 = 0;
  std::uint16_t vreducehalfValMask4 = 0;
  std::uint16_t vreducehalfValMask5 = 0;
  std::uint16_t vreducehalfValMask6 = 0;
  std::uint16_t vreducehalfValMask7 = 0;
};

namespace AscendC {
enum class TopKMode : std::uint8_t { TOPK_NORMAL, TOPK_NSMALL };
}  // namespace AscendC
