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

std::string Nearest(std::string_view word, std::span<const std::string> known) {
  const std::string* best = nullptr;
  int distance = int(word.size()) / 3 + 2;  // a third of the letters may differ
  for (const std::string& k : known) {
    const int d = EditDistance(word, k);
    if (d >= distance || d >= int(k.size())) continue;
    best = &k;
    distance = d;
  }
  return best ? *best : "";
}

std::string DidYouMean(std::string_view word, std::span<const std::string> known) {
  const std::string nearest = Nearest(word, known);
  return nearest.empty() ? "" : " Did you mean '" + nearest + "'?";
}

}  // namespace anyop
