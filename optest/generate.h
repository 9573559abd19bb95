// SPDX-License-Identifier: Apache-2.0
// Calls made from a signature: sizes, dtypes, absent arguments, words, data.
#pragma once
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "optest/optest.h"

namespace anyop::optest {

// What calls are made for. kGradient: small ones, of dtypes that have gradients.
enum class Purpose : std::uint8_t { kValues, kSpecialValues, kGradient };

struct SeedOptions {
  std::uint64_t seed = 1;
  bool is_exhaustive = false;
};

// The seeds of all calls to make for a test. A seed holds everything: the form, the dtypes, which
// of the stated sizes, and the data, so that one printed with a failure brings that call back.
std::vector<std::uint64_t> Seeds(const OpTest& test, Purpose purpose, const SeedOptions& options);

// The call of a seed; nothing if no sizes were found that the signature allows.
std::optional<Call> Generate(const OpTest& test, std::uint64_t seed, Purpose purpose);

}  // namespace anyop::optest
