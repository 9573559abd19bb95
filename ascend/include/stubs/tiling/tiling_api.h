// SPDX-License-Identifier: Apache-2.0
// What host code asks about extended functions: their tilings, and the memory for intermediate
// values, which is not used here: any size will do.
#pragma once
#include "anyop_ascend/extended_tiling.h"
#include "anyop_ascend/host/types.h"
#include "stubs/tiling/platform/platform_ascendc.h"

namespace optiling {
using ::RmsNormTiling;
using ::SoftMaxTiling;
using ::TopkTiling;
}  // namespace optiling

namespace AscendC {
namespace host {

// Rows and elements of a row: all dimensions but the last, and the last.
struct RowsOfShape {
  std::uint32_t rows = 1;
  std::uint32_t row = 1;

  explicit RowsOfShape(const ge::Shape& shape) {
    const std::size_t count = shape.GetDimNum();
    for (std::size_t i = 0; i + 1 < count; ++i) rows *= static_cast<std::uint32_t>(shape.GetDim(i));
    if (count) row = static_cast<std::uint32_t>(shape.GetDim(count - 1));
  }
  std::uint32_t floats() const { return rows * row * 4; }
};

}  // namespace host

inline std::uint32_t GetSoftMaxMinTmpSize(const ge::Shape& shape, const std::uint32_t, const bool) {
  return host::RowsOfShape(shape).row * 4;
}
inline std::uint32_t GetSoftMaxMaxTmpSize(const ge::Shape& shape, const std::uint32_t, const bool) {
  return host::RowsOfShape(shape).floats();
}
inline void SoftMaxTilingFunc(const ge::Shape& shape, const std::uint32_t, const std::uint32_t,
                              SoftMaxTiling& tiling) {
  const host::RowsOfShape rows(shape);
  tiling.srcM = tiling.splitM = tiling.outMaxM = tiling.reduceM = rows.rows;
  tiling.srcK = tiling.splitK = rows.row;
  tiling.srcSize = tiling.splitSize = rows.rows * rows.row;
  tiling.rangeM = 1;
}

inline bool GetRmsNormMaxMinTmpSize(const ge::Shape& shape, const std::uint32_t,
                                    std::uint32_t& most, std::uint32_t& least, const bool = false) {
  const host::RowsOfShape rows(shape);
  most = rows.floats();
  least = rows.row * 4;
  return true;
}
// The shape is [B, S, H]; of the original one, whose H counts, H may be smaller.
inline bool GetRmsNormTilingInfo(const ge::Shape& shape, const ge::Shape& origin,
                                 const std::uint32_t, const std::uint32_t, RmsNormTiling& tiling,
                                 const bool = false) {
  if (shape.GetDimNum() != 3 || origin.GetDimNum() != 3) return false;
  tiling.bLength = static_cast<std::uint32_t>(shape.GetDim(0));
  tiling.sLength = static_cast<std::uint32_t>(shape.GetDim(1));
  tiling.hLength = static_cast<std::uint32_t>(shape.GetDim(2));
  tiling.originalHLength = static_cast<std::uint32_t>(origin.GetDim(2));
  tiling.reciprocalOfHLength = 1.0f / static_cast<float>(tiling.originalHLength);
  tiling.mainBsLength = tiling.bLength * tiling.sLength;
  tiling.mainBshLength = tiling.mainBsLength * tiling.hLength;
  tiling.loopRound = 1;
  return true;
}

inline bool GetTopKMaxMinTmpSize(const platform_ascendc::PlatformAscendC&, const std::int32_t inner,
                                 const std::int32_t outter, const bool, const bool, TopKMode,
                                 const bool, const std::uint32_t, std::uint32_t& most,
                                 std::uint32_t& least) {
  most = least = static_cast<std::uint32_t>(inner * outter) * 8;
  return true;
}
inline bool TopKTilingFunc(const platform_ascendc::PlatformAscendC&, const std::int32_t inner,
                           const std::int32_t outter, const std::int32_t, const std::uint32_t,
                           const bool, TopKMode, const bool, TopkTiling& tiling) {
  tiling.innerDataSize = inner;
  tiling.allDataSize = inner * outter;
  return inner % 32 == 0;
}

}  // namespace AscendC
