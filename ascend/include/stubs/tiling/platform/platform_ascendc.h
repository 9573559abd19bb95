// SPDX-License-Identifier: Apache-2.0
// What a tiling function asks about the device.
#pragma once
#include <cstdint>

#include "anyop_ascend/socs.h"

namespace platform_ascendc {

enum class CoreMemType : std::uint8_t { L0_A, L0_B, L0_C, L1, L2, UB, HBM };
enum class SocVersion : std::uint8_t { ASCEND910B, ASCEND910_93, ASCEND310P };

// Of the SoC ascend910b.
class PlatformAscendC {
 public:
  template <class Info>
  explicit PlatformAscendC(Info*) {}
  std::uint32_t GetCoreNum() const { return GetCoreNumAiv(); }
  std::uint32_t GetCoreNumAiv() const { return anyop_ascend::kSocNames[0].vector_cores; }
  std::uint32_t GetCoreNumAic() const { return 20; }
  SocVersion GetSocVersion() const { return SocVersion::ASCEND910B; }
  std::uint32_t GetLibApiWorkSpaceSize() const { return 16 * 1024 * 1024; }
  void GetCoreMemSize(CoreMemType type, std::uint64_t& bytes) const {
    bytes = (type == CoreMemType::UB ? 192 : 512) * std::uint64_t{1024};
  }
};

}  // namespace platform_ascendc
