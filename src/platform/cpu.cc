// SPDX-License-Identifier: Apache-2.0
#include "platform/cpu.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <thread>
#include <utility>

#include "platform/affinity.h"
#include "platform/env.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace anyop {
namespace {

#if defined(__x86_64__)

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};
Registers CpuId(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  if (__get_cpuid_max(leaf & 0x80000000u, nullptr) >= leaf) {
    __cpuid_count(leaf, subleaf, r.a, r.b, r.c, r.d);
  }
  return r;
}

// The registers that the operating system saves: without that a feature is not usable.
std::uint64_t SavedState() {
  if (!(CpuId(1).c >> 27 & 1)) return 0;  // OSXSAVE
  unsigned low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t(high) << 32 | low;
}
// Bits of XCR0. AVX: xmm, ymm; AVX-512: also its masks and both halves of zmm; AMX: tiles and how
// they are configured.
constexpr std::uint64_t kYmm = 0x6, kZmm = 0xe6, kTiles = 0x60000;

// Linux saves the data of tiles only for processes that ask, and refuses where a thread has an
// alternate signal stack too small to hold them.
bool MayUseTiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // <asm/prctl.h>: ARCH_REQ_XCOMP_PERM
  static const bool may = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return may;
}

struct Feature {
  const char* name;
  unsigned leaf, subleaf;
  unsigned Registers::*reg;
  int bit;
  std::uint64_t state;
};
constexpr Feature kFeatures[] = {
    {"sse4_2", 1, 0, &Registers::c, 20, 0},         {"avx", 1, 0, &Registers::c, 28, kYmm},
    {"avx2", 7, 0, &Registers::b, 5, kYmm},         {"fma", 1, 0, &Registers::c, 12, kYmm},
    {"f16c", 1, 0, &Registers::c, 29, kYmm},        {"bmi2", 7, 0, &Registers::b, 8, 0},
    {"avx_vnni", 7, 1, &Registers::a, 4, kYmm},     {"avx512f", 7, 0, &Registers::b, 16, kZmm},
    {"avx512bw", 7, 0, &Registers::b, 30, kZmm},    {"avx512dq", 7, 0, &Registers::b, 17, kZmm},
    {"avx512vl", 7, 0, &Registers::b, 31, kZmm},    {"avx512cd", 7, 0, &Registers::b, 28, kZmm},
    {"avx512_vnni", 7, 0, &Registers::c, 11, kZmm}, {"avx512_vbmi", 7, 0, &Registers::c, 1, kZmm},
    {"avx512_bf16", 7, 1, &Registers::a, 5, kZmm},  {"avx512_fp16", 7, 0, &Registers::d, 23, kZmm},
    {"amx_tile", 7, 0, &Registers::d, 24, kTiles},  {"amx_int8", 7, 0, &Registers::d, 25, kTiles},
    {"amx_bf16", 7, 0, &Registers::d, 22, kTiles},
};

std::vector<std::string> DetectFeatures() {
  const std::uint64_t saved = SavedState();
  std::vector<std::string> found;
  for (const Feature& f : kFeatures) {
    const Registers r = CpuId(f.leaf, f.subleaf);
    if (!(r.*f.reg >> f.bit & 1) || (saved & f.state) != f.state) continue;
    if (f.state != kTiles || MayUseTiles()) found.push_back(f.name);
  }
  return found;
}

std::string DetectName() {
  std::string name;
  for (unsigned leaf = 0x80000002u; leaf <= 0x80000004u; ++leaf) {
    const Registers r = CpuId(leaf);
    for (const unsigned word : {r.a, r.b, r.c, r.d}) {
      for (int byte = 0; byte < 4; ++byte) name += char(word >> 8 * byte);
    }
  }
  name.erase(std::find(name.begin(), name.end(), '\0'), name.end());
  name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
  while (name.ends_with(' ')) name.pop_back();
  return name.empty() ? "x86-64" : name;
}

#elif defined(__aarch64__)

std::vector<std::string> DetectFeatures() {
  const unsigned long has = getauxval(AT_HWCAP), has2 = getauxval(AT_HWCAP2);
  std::vector<std::string> found{"neon"};
  if (has & HWCAP_ASIMDHP) found.push_back("fp16");
  if (has & HWCAP_ASIMDDP) found.push_back("dotprod");
  if (has & HWCAP_SVE) found.push_back("sve");
#ifdef HWCAP2_BF16
  if (has2 & HWCAP2_BF16) found.push_back("bf16");
  if (has2 & HWCAP2_I8MM) found.push_back("i8mm");
#endif
  (void)has2;
  return found;
}
std::string DetectName() { return "AArch64"; }

#else

std::vector<std::string> DetectFeatures() { return {}; }
std::string DetectName() { return "unknown"; }

#endif

// Whether kernels may use `feature` where ANYOP_ISA is `isa`.
bool IsWithin(std::string_view isa, std::string_view feature) {
  if (isa == "native") return true;
  if (isa == "portable") return false;
  const bool is_wide = feature.starts_with("avx512") || feature.starts_with("amx");
  if (isa == "avx2" || !is_wide) return !is_wide;
  return feature == "avx512f" || feature == "avx512bw" || feature == "avx512dq" ||
         feature == "avx512vl" || feature == "avx512cd";
}

// The first line of a small file of the system; "" if there is none.
std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

CacheSizes DetectCaches() {
  CacheSizes sizes;
  for (int i = 0; i < 8; ++i) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + "/";
    const std::string level = FirstLine(folder + "level"), size = FirstLine(folder + "size");
    if (level.empty() || size.empty() || FirstLine(folder + "type") == "Instruction") continue;
    const std::int64_t unit = size.back() == 'K' ? 1024 : size.back() == 'M' ? 1 << 20 : 1;
    const std::int64_t bytes = std::atoll(size.c_str()) * unit;
    (level == "1" ? sizes.l1d : level == "2" ? sizes.l2 : sizes.l3) = bytes;
  }
  const auto ask = [](int name) { return std::max(0L, sysconf(name)); };
  if (!sizes.l1d) sizes.l1d = ask(_SC_LEVEL1_DCACHE_SIZE);
  if (!sizes.l2) sizes.l2 = ask(_SC_LEVEL2_CACHE_SIZE);
  if (!sizes.l3) sizes.l3 = ask(_SC_LEVEL3_CACHE_SIZE);
  return sizes;
}

// The cores that this process may run on by its affinity; hardware threads of one core count once.
int AffinityCores() {
  cpu_set_t allowed;
  if (!ReadProcessors(allowed)) return int(std::max(1u, std::thread::hardware_concurrency()));
  std::set<std::pair<std::string, std::string>> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    std::string core = FirstLine(folder + "core_id");
    if (core.empty()) core = "cpu" + std::to_string(cpu);
    cores.emplace(FirstLine(folder + "physical_package_id"), core);
  }
  return std::max(1, int(cores.size()));
}

// Whole cores of the control group's quota; 0 without one: cgroup v2 then says "max", which is not
// read as a number, and v1 says -1.
int QuotaCores() {
  double quota = 0, period = 0;
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  if (!(v2 >> quota >> period)) {
    std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") >> quota;
    std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_period_us") >> period;
  }
  if (quota <= 0 || period <= 0) return 0;
  return std::max(1, int(quota / period + 0.5));
}

}  // namespace

const std::vector<std::string>& MachineFeatures() {
  static const std::vector<std::string> features = DetectFeatures();
  return features;
}

const std::vector<std::string>& CpuFeatures() {
  static const std::vector<std::string> features = [] {
    const std::string isa = Environment("ANYOP_ISA");
    std::vector<std::string> kept;
    for (const std::string& f : MachineFeatures()) {
      if (IsWithin(isa, f)) kept.push_back(f);
    }
    return kept;
  }();
  return features;
}

bool HasFeature(std::string_view name) {
  const std::vector<std::string>& features = CpuFeatures();
  return std::find(features.begin(), features.end(), name) != features.end();
}

std::string_view MissingFeature(std::string_view needs) {
  while (!needs.empty()) {
    const std::size_t end = std::min(needs.find(','), needs.size());
    const std::string_view name = needs.substr(0, end);
    if (!HasFeature(name)) return name;
    needs.remove_prefix(std::min(end + 1, needs.size()));
  }
  return {};
}

const std::string& CpuName() {
  static const std::string name = DetectName();
  return name;
}

const CacheSizes& Caches() {
  static const CacheSizes sizes = DetectCaches();
  return sizes;
}

int AvailableCores() {
  const int cores = AffinityCores(), quota = QuotaCores();
  return quota > 0 ? std::min(cores, quota) : cores;
}

}  // namespace anyop
