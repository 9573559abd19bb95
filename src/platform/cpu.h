// SPDX-License-Identifier: Apache-2.0
// What this processor can do, by name.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace anyop {

// The features that kernels may ask for and this machine has, operating system support included:
// "avx2", "fma", "f16c", "avx512f", "avx512_bf16", ..., "neon". ANYOP_ISA caps them: `portable`
// leaves none, `avx2` none of AVX-512 and AMX, `avx512` no more than f, bw, dq, vl and cd.
// Throws what CheckEnvironment throws.
const std::vector<std::string>& CpuFeatures();

// The same without the cap.
const std::vector<std::string>& MachineFeatures();

bool HasFeature(std::string_view name);

// The first of `needs` ("avx2,fma,f16c", as kernels state them) that is missing; "" if none is.
std::string_view MissingFeature(std::string_view needs);

// "AMD EPYC 9B14", or the architecture where the processor does not say.
const std::string& CpuName();

// Bytes of the caches that one core sees; 0 where unknown. l3 is shared with other cores.
struct CacheSizes {
  std::int64_t l1d = 0, l2 = 0, l3 = 0;
};
const CacheSizes& Caches();
// Of the last level that is known.
inline std::int32_t LastLevelKib() {
  const CacheSizes& c = Caches();
  return std::int32_t((c.l3 ? c.l3 : c.l2) / 1024);
}

// Physical cores that this process may use: its affinity, or OpenMP's places where OpenMP bound the
// thread that asks, without the second threads of a core, and no more than the quota of its control
// group. At least 1.
int AvailableCores();

}  // namespace anyop
