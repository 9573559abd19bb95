// SPDX-License-Identifier: Apache-2.0
#include "soc.h"

#include <cstring>

namespace anyop_ascend {
namespace {

constexpr std::uint32_t kKiB = 1024;
}  // namespace

// Sizes of the order of Memory. The last three are no memories of their own on the device: kernels
// declare buffers there all the same.
const Soc kSocs[3] = {
    {.name = "ascend910b",
     .bytes = {192 * kKiB, 512 * kKiB, 64 * kKiB, 64 * kKiB, 128 * kKiB, kKiB, 256 * kKiB,
               256 * kKiB, 256 * kKiB},
     .reserved = 256,
     .event_ids = 8,
     .lacks = kNoScatter | kNoProposals,
     .vector_cores = 40,
     .cube_cores = 20},
    {.name = "ascend910_93",
     .bytes = {192 * kKiB, 512 * kKiB, 64 * kKiB, 64 * kKiB, 128 * kKiB, kKiB, 256 * kKiB,
               256 * kKiB, 256 * kKiB},
     .reserved = 256,
     .event_ids = 8,
     .lacks = kNoScatter | kNoProposals,
     .vector_cores = 40,
     .cube_cores = 20},
    {.name = "ascend310p",
     .bytes = {256 * kKiB, 1024 * kKiB, 64 * kKiB, 64 * kKiB, 256 * kKiB, 256 * kKiB, 256 * kKiB,
               256 * kKiB, 256 * kKiB},
     .reserved = 256,
     .event_ids = 8,
     .lacks = kNoBfloat16 | kNoCopyPad | kNoSortPairs | kNoCrossCore,
     .vector_cores = 8,
     .cube_cores = 8},
};

const Soc* FindSoc(const char* name) {
  for (const Soc& soc : kSocs)
    if (!std::strcmp(soc.name, name)) return &soc;
  return nullptr;
}
const char* SocsAsJson() { return R"(["ascend910b", "ascend910_93", "ascend310p"])"; }

}  // namespace anyop_ascend
