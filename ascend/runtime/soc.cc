// SPDX-License-Identifier: Apache-2.0
#include "soc.h"

#include <cstdlib>
#include <cstring>
#include <string>

namespace anyop_ascend {
namespace {

constexpr std::uint32_t kKiB = 1024;
}  // namespace

// Sizes of the order of Memory. The last three are no memories of their own on the device: kernels
// declare buffers there all the same.
const Soc kSocs[kNumSocs] = {
    {.name = kSocNames[0].name,
     .bytes = {192 * kKiB, 512 * kKiB, 64 * kKiB, 64 * kKiB, 128 * kKiB, kKiB, 256 * kKiB,
               256 * kKiB, 256 * kKiB},
     .reserved = 256,
     .event_ids = 8,
     .lacks = kNoScatter | kNoProposals},
    {.name = kSocNames[1].name,
     .bytes = {192 * kKiB, 512 * kKiB, 64 * kKiB, 64 * kKiB, 128 * kKiB, kKiB, 256 * kKiB,
               256 * kKiB, 256 * kKiB},
     .reserved = 256,
     .event_ids = 8,
     .lacks = kNoScatter | kNoProposals},
    {.name = kSocNames[2].name,
     .bytes = {256 * kKiB, 1024 * kKiB, 64 * kKiB, 64 * kKiB, 256 * kKiB, 256 * kKiB, 256 * kKiB,
               256 * kKiB, 256 * kKiB},
     .reserved = 256,
     .event_ids = 8,
     .lacks = kNoBfloat16 | kNoCopyPad | kNoSortPairs | kNoCrossCore | kNoMrgSort},
};

const Soc* FindSoc(const char* name) {
  for (const Soc& soc : kSocs)
    if (!std::strcmp(soc.name, name)) return &soc;
  return nullptr;
}
const Soc& SocOfEnvironment() {
  const char* const name = std::getenv("ANYOP_ASCEND_SOC");
  const Soc* const soc = name ? FindSoc(name) : nullptr;
  return soc ? *soc : kSocs[0];
}
const char* SocsAsJson() {
  static const std::string text = [] {
    std::string made;
    for (const NamedSoc& soc : kSocNames) {
      made += (made.empty() ? "[\"" : ", \"") + std::string(soc.name) + "\"";
    }
    return made + "]";
  }();
  return text.c_str();
}

}  // namespace anyop_ascend
