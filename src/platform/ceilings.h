// SPDX-License-Identifier: Apache-2.0
// The highest speeds that this machine reaches, measured: the scale of every "share of the
// ceiling".
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace anyop {

struct Bandwidth {
  std::string level;       // "L1", "L2", "L3", "DRAM"
  std::int64_t bytes = 0;  // of the set that each thread goes over
  int threads = 1;
  double read_gbs = 0;  // 1e9 bytes per second, all threads together
  double copy_gbs = 0;  // bytes read plus bytes written
};

struct Rate {
  std::string name;  // "f32 fma", "bf16 dot", "int8 dot": in vectors of the widest kind, or tiles
  int threads = 1;
  double gops = 0;  // 1e9 operations per second; a multiply-add counts as 2
};

struct Ceilings {
  std::vector<Bandwidth> bandwidths;
  std::vector<Rate> rates;
  double seconds = 0;  // that measuring took

  // The entry for `level` or `name` with that many threads; null if there is none.
  const Bandwidth* bandwidth(std::string_view level, int threads) const;
  const Rate* rate(std::string_view name, int threads) const;
};

// Measures for about two seconds, with one thread and with NumThreads() of them. Only features
// that ANYOP_ISA leaves are used.
Ceilings MeasureCeilings();

// Measured at the first call, then kept.
const Ceilings& MachineCeilings();

}  // namespace anyop
