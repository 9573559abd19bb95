// SPDX-License-Identifier: Apache-2.0
// What a tiling function asks about the device: numbers of the SoC that is configured.
#pragma once
#include <cstdint>
#include <cstring>

#include "anyop_ascend/core.h"

#include "anyop_ascend/socs.h"

namespace platform_ascendc {

enum class CoreMemType : std::uint8_t { L0_A, L0_B, L0_C, L1, L2, UB, HBM };
enum class SocVersion : std::uint8_t { ASCEND910B, ASCEND910_93, ASCEND310P };

class PlatformAscendC {
 public:
  template <class Info>
  explicit PlatformAscendC(Info*) {}
  std::uint32_t GetCoreNum() const { return GetCoreNumAiv(); }
  std::uint32_t GetCoreNumAiv() const { return anyop_ascend::NumberOfCores(true); }
  std::uint32_t GetCoreNumAic() const { return anyop_ascend::NumberOfCores(false); }
  // Blocks that so many vector cores make; kernels here use vector cores alone.
  std::uint32_t CalcTschBlockDim(std::uint32_t slices, std::uint32_t, std::uint32_t) const {
    return slices;
  }
  SocVersion GetSocVersion() const {
    const char* name = anyop_ascend::SocName();
    if (!std::strcmp(name, "ascend310p")) return SocVersion::ASCEND310P;
    return std::strcmp(name, "ascend910_93") ? SocVersion::ASCEND910B : SocVersion::ASCEND910_93;
  }
  std::uint32_t GetLibApiWorkSpaceSize() const { return 16 * 1024 * 1024; }
  void GetCoreMemSize(const CoreMemType& type, std::uint64_t& bytes) const {
    using anyop_ascend::LocalBytes;
    switch (type) {
      case CoreMemType::UB:
        bytes = LocalBytes(anyop_ascend::kUb);
        break;
      case CoreMemType::L1:
        bytes = LocalBytes(anyop_ascend::kL1);
        break;
      case CoreMemType::L0_A:
        bytes = LocalBytes(anyop_ascend::kL0A);
        break;
      case CoreMemType::L0_B:
        bytes = LocalBytes(anyop_ascend::kL0B);
        break;
      case CoreMemType::L0_C:
        bytes = LocalBytes(anyop_ascend::kL0C);
        break;
      default:
        bytes = 0;  // the device's own memory is not modelled
    }
  }
};

}  // namespace platform_ascendc
