// SPDX-License-Identifier: Apache-2.0
// Calls made from a signature: sizes, dtypes, absent arguments, words, data.
#pragma once
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "optest/checks.h"

namespace anyop::optest {

// What calls are made for. kGradient: small ones, of dtypes that have gradients. kPromises: given
// up soon, since many combinations of dtypes are none.
enum class Purpose : std::uint8_t { kValues, kExtremeValues, kGradient, kPromises };

struct SeedOptions {
  std::uint64_t seed = 1;
  bool is_exhaustive = false;
};

// The seeds of all calls to make for a test. A seed holds everything: the form, the dtypes, which
// of the stated sizes, and the data, so that one printed with a failure brings that call back.
std::vector<std::uint64_t> Seeds(const OpTest& test, Purpose purpose, const SeedOptions& options);

// The tensors of floats that may hold extreme values; throws for a name in not_extreme that is
// none.
std::vector<std::string_view> ExtremeParams(const OpTest& test);

// Seeds of a few small calls of every combination of dtypes of every form.
std::vector<std::uint64_t> PromiseSeeds(const OpTest& test);

// The call of a seed; nothing if no sizes were found that the signature allows.
std::optional<Call> Generate(const OpTest& test, std::uint64_t seed, Purpose purpose);

}  // namespace anyop::optest
