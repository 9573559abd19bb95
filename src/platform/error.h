// SPDX-License-Identifier: Apache-2.0
// Raising errors, and naming the nearest known word.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "anyop/error.h"

namespace anyop {

[[noreturn]] void Fail(int code, const std::string& text);

// A name as texts give it: 'rms_norm'.
inline std::string InQuotes(std::string_view name) { return "'" + std::string(name) + "'"; }

// Insertions, deletions, substitutions and swaps of neighbours between two words.
int EditDistance(std::string_view a, std::string_view b);

// The known word nearest to `word`, or "" if none is near enough to be meant: about a third of the
// letters may differ. In names with dots, the path that both begin with does not count.
std::string Nearest(std::string_view word, std::span<const std::string> known);

// " Did you mean 'rms_norm'?", or "" without a near word.
std::string DidYouMean(std::string_view word, std::span<const std::string> known);

// The same for a list of few words: where none is near, all are listed: " Try x, weight or eps."
std::string NearOrAll(std::string_view word, std::span<const std::string> known);

}  // namespace anyop
