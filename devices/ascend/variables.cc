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

NamedSoc ReadSoc(const Additions& additions, std::string* why) {
  const std::string_view text = Variable("ANYOP_ASCEND_SOC");
  std::string known;
  std::vector<NamedSoc> all(std::begin(anyop_ascend::kSocNames), std::end(anyop_ascend::kSocNames));
  all.insert(all.end(), additions.chips.begin(), additions.chips.end());
  for (const NamedSoc& soc : all) {
    if (text == soc.name) return soc;
    known += (known.empty() ? "" : " | ") + std::string(soc.name);
  }
  if (!text.empty()) *why = Wrong("ANYOP_ASCEND_SOC", text, known);
  return all[0];
}

// Words with ',' between them.
void ReadWords(const Additions& additions, Settings* settings, std::string* why) {
  const std::string_view text = Variable(additions.variable);
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (word == "delay") {
      settings->longest_delay_us = kDelayUs;
    } else if (word == "trace") {
      settings->is_traced = true;
    } else if (std::ranges::find(additions.words, word) == additions.words.end()) {
      std::string must = "empty, or of the words ";
      for (const std::string_view known : additions.words) must += std::string(known) + ", ";
      *why = Wrong(additions.variable, text, must + "delay and trace");
    }
  }
}

}  // namespace

Settings ReadVariables(const Additions& additions) {
  Settings settings{.why_none = "", .name = "", .slack_bytes = kSlackBytes};
  std::string& why = settings.why_none;
  const NamedSoc soc = ReadSoc(additions, &why);
  settings.name = std::string(soc.title) + " (virtual)";
  settings.cores = std::int32_t(soc.vector_cores);
  settings.memory_bytes = std::uint64_t{4} << 30;
  std::uint64_t devices = 2;
  ReadNumber("ANYOP_ASCEND_DEVICES", 1, kMostDevices, &devices, &why);
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;  // of addresses there are 2^47
  ReadNumber("ANYOP_ASCEND_MEMORY_BYTES", 1 << 20, kMostBytes, &settings.memory_bytes, &why);
  ReadWords(additions, &settings, &why);
  settings.devices = why.empty() ? int(devices) : 0;
  return settings;
}

NamedSoc Soc(const Additions& additions) {
  std::string why;
  return ReadSoc(additions, &why);
}

}  // namespace virtual_device
