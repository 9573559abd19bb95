// SPDX-License-Identifier: Apache-2.0
#include "platform/error.h"

#include <algorithm>
#include <vector>

namespace anyop {

void Fail(int code, const std::string& text) { throw Error(code, text); }

int EditDistance(std::string_view a, std::string_view b) {
  const std::size_t n = b.size();
  std::vector<int> before(n + 1), row(n + 1), next(n + 1);  // rows i - 2, i - 1, i
  for (std::size_t j = 0; j <= n; ++j) row[j] = int(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = int(i);
    for (std::size_t j = 1; j <= n; ++j) {
      const int change = a[i - 1] == b[j - 1] ? 0 : 1;
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        next[j] = std::min(next[j], before[j - 2] + 1);
      }
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row[n];
}

// How many letters two names share up to a dot: the library that both are of. Nearest leaves them
// out, because "anyop." in front of both would count as letters that agree.
static std::size_t SharedPath(std::string_view a, std::string_view b) {
  std::size_t shared = 0;
  for (std::size_t i = 0; i < a.size() && i < b.size() && a[i] == b[i]; ++i) {
    if (a[i] == '.') shared = i + 1;
  }
  return shared;
}

std::string Nearest(std::string_view word, std::span<const std::string> known) {
  const std::string* best = nullptr;
  int distance = 0;
  for (const std::string& k : known) {
    const std::size_t shared = SharedPath(word, k);
    const std::string_view a = word.substr(shared), b = std::string_view(k).substr(shared);
    const int longer = int(std::max(a.size(), b.size()));
    const int d = EditDistance(a, b);
    if (d > (longer + 1) / 3 || d >= longer || (best && d >= distance)) continue;
    best = &k;
    distance = d;
  }
  return best ? *best : "";
}

std::string DidYouMean(std::string_view word, std::span<const std::string> known) {
  const std::string nearest = Nearest(word, known);
  return nearest.empty() ? "" : " Did you mean '" + nearest + "'?";
}

std::string NearOrAll(std::string_view word, std::span<const std::string> known) {
  const std::string near = DidYouMean(word, known);
  if (!near.empty() || known.empty()) return near;
  std::string all;
  for (std::size_t i = 0; i < known.size(); ++i) {
    all += (i == 0 ? "" : i + 1 == known.size() ? " or " : ", ") + known[i];
  }
  return " Try " + all + ".";
}

}  // namespace anyop
