// SPDX-License-Identifier: Apache-2.0
// What makes one virtual device differ from another. The rest of this folder is the same for all.
#pragma once
#include <cstdint>
#include <string>

namespace virtual_device {

struct Settings {
  int devices = 2;
  std::string why_none;  // a sentence, where there are none
  std::string name;      // in the properties of each device, with the number of its cores
  std::int32_t cores = 0;
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;  // of each device
  std::uint64_t slack_bytes = 0;  // which device code may read behind each allocation
  std::uint64_t seed = 1;         // of the delays
  std::uint32_t longest_delay_us = 0;
  // A late error that came to several streams along events is told by one of them alone, and says
  // whether work behind it has not run. For hosts that say nothing of it themselves.
  bool tells_errors_once = false;
  bool is_traced = false;  // on standard error: what is put on streams, and what waits (trace.h)
};

// Each library defines both: the word of its devices, and what its environment says.
extern const char kWord[];
Settings ReadSettings();

// Read at the first call. Changes count until the devices are made.
Settings& TheSettings();

}  // namespace virtual_device
