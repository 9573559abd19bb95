// SPDX-License-Identifier: Apache-2.0
#include "devices/ascend/variables.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace virtual_device {
namespace {

using anyop_ascend::NamedSoc;

constexpr std::uint64_t kMostDevices = 16;
constexpr std::uint64_t kSlackBytes = 64;  // copies of a device read up to 60 bytes behind a tensor
constexpr std::uint32_t kDelayUs = 100;

// A sentence: which values the variable may have.
std::string Wrong(const std::string& variable, std::string_view value, const std::string& must) {
  return variable + " is '" + std::string(value) + "', but must be " + must + ".";
}

std::string_view Variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

// Leaves `to` as it is where the variable is not set.
void ReadNumber(const char* variable, std::uint64_t least, std::uint64_t most, std::uint64_t* to,
                std::string* why) {
  const std::string_view text = Variable(variable);
  if (text.empty()) return;
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && value >= least && value <= most) {
    *to = value;
    return;
  }
  *why = Wrong(variable, text,
               "an integer from " + std::to_string(least) + " to " + std::to_string(most));
}

const NamedSoc& ReadSoc(std::string* why) {
  const std::string_view text = Variable("ANYOP_ASCEND_SOC");
  std::string known;
  for (const NamedSoc& soc : anyop_ascend::kSocNames) {
    if (text == soc.name) return soc;
    known += (known.empty() ? "" : " | ") + std::string(soc.name);
  }
  if (!text.empty()) *why = Wrong("ANYOP_ASCEND_SOC", text, known);
  return anyop_ascend::kSocNames[0];
}

// Words with ',' between them.
void ReadWords(const char* variable, std::span<const std::string_view> on, Settings* settings,
               std::string* why) {
  std::string_view rest = Variable(variable);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (word == "delay") {
      settings->longest_delay_us = kDelayUs;
    } else if (std::ranges::find(on, word) == on.end()) {
      std::string must;
      for (const std::string_view known : on) must += std::string(known) + ", ";
      *why = Wrong(variable, Variable(variable), must + "empty or delay");
    }
  }
}

}  // namespace

Settings ReadVariables(const char* variable_of_words, std::span<const std::string_view> on) {
  Settings settings{.why_none = "", .name = "", .slack_bytes = kSlackBytes};
  std::string& why = settings.why_none;
  const NamedSoc& soc = ReadSoc(&why);
  settings.name = std::string(soc.title) + " (virtual)";
  settings.cores = std::int32_t(soc.vector_cores);
  settings.memory_bytes = std::uint64_t{4} << 30;
  std::uint64_t devices = 2;
  ReadNumber("ANYOP_ASCEND_DEVICES", 1, kMostDevices, &devices, &why);
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;  // of addresses there are 2^47
  ReadNumber("ANYOP_ASCEND_MEMORY_BYTES", 1 << 20, kMostBytes, &settings.memory_bytes, &why);
  ReadWords(variable_of_words, on, &settings, &why);
  settings.devices = why.empty() ? int(devices) : 0;
  return settings;
}

const NamedSoc& Soc() {
  std::string why;
  return ReadSoc(&why);
}

}  // namespace virtual_device
