// SPDX-License-Identifier: Apache-2.0
// The environment variables of anyop. No other file reads the environment.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace anyop {

struct EnvironmentVariable {
  std::string_view name;
  std::string_view default_value;  // "" for none
  std::string_view sentence;       // what it does
  std::string_view values;         // "a | b", "integer >= 1", or "" for free text
};

// All of them, in the order in which `anyop doctor` prints them.
std::span<const EnvironmentVariable> EnvironmentVariables();

// The value of a variable of the table, checked, or its default. Throws InvalidArgument for a bad
// value, Internal for a name that is not in the table. Read anew at every call: callers keep it.
std::string Environment(std::string_view name);
std::int64_t EnvironmentInteger(std::string_view name);  // 0 where neither set nor with a default
bool EnvironmentFlag(std::string_view name);             // "1"

// Where anyop keeps files of its own: ANYOP_CACHE, or `anyop` in the user's cache folder; "" where
// the user has none. It need not exist.
std::string CacheFolder();

// Throws InvalidArgument for an ANYOP_* variable that the table does not know, naming the nearest,
// and for a bad value, listing the good ones: a misspelt variable would otherwise do nothing. The
// runtime calls it when it starts.
void CheckEnvironment();

}  // namespace anyop
