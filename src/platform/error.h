// SPDX-License-Identifier: Apache-2.0
// Raising errors, and naming the nearest known word.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "anyop/error.h"

namespace anyop {

[[noreturn]] void Fail(int code, const std::string& text);

// Insertions, deletions, substitutions and swaps of neighbours between two words.
int EditDistance(std::string_view a, std::string_view b);

// The known word nearest to `word`; "" if none is near enough to be what was meant: about a third
// of its letters may differ, in names with dots those behind what both begin with.
std::string Nearest(std::string_view word, std::span<const std::string> known);

// " Did you mean 'rms_norm'?", or "" without a near word.
std::string DidYouMean(std::string_view word, std::span<const std::string> known);

// The same of a few words, all of which are listed without a near one: " Try x, weight or eps."
std::string NearOrAll(std::string_view word, std::span<const std::string> known);

}  // namespace anyop
