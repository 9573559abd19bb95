// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/diff.h"

#include <algorithm>
#include <vector>

namespace anyop {
namespace {

// Cells of 4 bytes: the table of Edits takes at most 256 MiB.
constexpr std::size_t kContext = 3, kMostCells = std::size_t(1) << 26;

using Lines = std::vector<std::string_view>;

Lines Split(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

struct Edit {
  char mark;  // ' ', '-' or '+'
  std::string_view line;
};

// By the longest common subsequence of the lines between the common head and tail: the time is the
// number of such lines of one text times that of the other.
std::vector<Edit> Edits(const Lines& a, const Lines& b) {
  std::size_t head = 0, tail = 0;
  const std::size_t least = std::min(a.size(), b.size());
  while (head < least && a[head] == b[head]) ++head;
  while (tail < least - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;
  const std::size_t n = a.size() - head - tail, m = b.size() - head - tail;
  const bool is_small = n * m <= kMostCells;  // else all of one, then all of the other
  std::vector<std::uint32_t> common(is_small ? (n + 1) * (m + 1) : 0);
  const auto at = [&](std::size_t i, std::size_t j) -> std::uint32_t& {
    return common[i * (m + 1) + j];
  };
  for (std::size_t i = is_small ? n : 0; i-- > 0;) {
    for (std::size_t j = m; j-- > 0;) {
      at(i, j) =
          a[head + i] == b[head + j] ? at(i + 1, j + 1) + 1 : std::max(at(i + 1, j), at(i, j + 1));
    }
  }
  std::vector<Edit> edits;
  for (std::size_t i = 0; i < head; ++i) edits.push_back({' ', a[i]});
  std::size_t i = 0, j = 0;
  while (i < n || j < m) {
    if (is_small && i < n && j < m && a[head + i] == b[head + j]) {
      edits.push_back({' ', a[head + i++]});
      ++j;
    } else if (i < n && (j == m || !is_small || at(i + 1, j) >= at(i, j + 1))) {
      edits.push_back({'-', a[head + i++]});
    } else {
      edits.push_back({'+', b[head + j++]});
    }
  }
  for (std::size_t k = a.size() - tail; k < a.size(); ++k) edits.push_back({' ', a[k]});
  return edits;
}

}  // namespace

std::string UnifiedDiff(std::string_view before, std::string_view after) {
  const std::vector<Edit> edits = Edits(Split(before), Split(after));
  std::string text;
  std::size_t line[2] = {1, 1};  // of `before` and `after`, at `done`
  const auto skip = [&](const Edit& e) {
    line[0] += e.mark != '+';
    line[1] += e.mark != '-';
  };
  const auto next_change = [&](std::size_t from) {
    while (from < edits.size() && edits[from].mark == ' ') ++from;
    return from;
  };
  for (std::size_t done = 0, change = next_change(0); change < edits.size();) {
    const std::size_t begin = std::max(done, change - std::min(change, kContext));
    for (; done < begin; ++done) skip(edits[done]);
    std::size_t end = change;  // of the last change in this hunk
    while (change < edits.size() && change <= end + 2 * kContext) {
      end = change + 1;
      change = next_change(end);
    }
    end = std::min(end + kContext, edits.size());
    const std::size_t from[2] = {line[0], line[1]};
    std::string body;
    for (; done < end; ++done) {
      body += edits[done].mark + std::string(edits[done].line) + "\n";
      skip(edits[done]);
    }
    const auto range = [&](int k) {
      return std::to_string(from[k]) + "," + std::to_string(line[k] - from[k]);
    };
    text += "@@ -" + range(0) + " +" + range(1) + " @@\n" + body;
  }
  return text;
}

}  // namespace anyop
