// SPDX-License-Identifier: Apache-2.0
// The rules over several forms of one operator.
#pragma once
#include "anyop/lexer.h"

namespace anyop::parse {

constexpr std::size_t PositionOf(std::string_view part, std::string_view text) {
  return std::size_t(part.data() - text.data());
}

constexpr void CheckSameNames(const Form& first, const Form& form, std::string_view text) {
  const std::size_t here = PositionOf(form.text, text);
  if (form.name != first.name) Fail("all forms of an operator have its name", here);
  if (form.params.size() != first.params.size() || form.results.size() != first.results.size()) {
    Fail("all forms have the same parameters and results", here);
  }
  for (std::size_t i = 0; i < form.params.size(); ++i) {
    const Param &p = form.params[i], &q = first.params[i];
    const std::size_t at = PositionOf(p.name, text);
    if (p.name != q.name) Fail("all forms have the same parameters, in the same order", at);
    if (p.kind != q.kind || p.is_optional != q.is_optional || p.is_mut != q.is_mut ||
        p.is_planned != q.is_planned) {
      Fail("a parameter has the same kind in every form, and is planned, mut or optional in all",
           at);
    }
    if (!p.default_text.empty() && p.default_text != q.default_text) {
      Fail("a default is that of the first form: write it there", at);
    }
  }
  for (std::size_t i = 0; i < form.results.size(); ++i) {
    const Result &r = form.results[i], &s = first.results[i];
    if (r.name != s.name || r.is_optional != s.is_optional) {
      Fail("all forms have the same results, in the same order", PositionOf(r.name, text));
    }
  }
}

constexpr bool HasWord(const Param& p, std::string_view word) {
  for (const std::string_view w : p.words) {
    if (w == word) return true;
  }
  return false;
}

// The ranks that a type takes when "..." stands for `lead` dimensions.
constexpr int RankOf(const TensorType& t, int lead) {
  return int(t.dims.size()) + (t.has_dots ? lead : 0);
}
constexpr bool SameRanks(const Form& a, int a_lead, const Form& b, int b_lead) {
  for (std::size_t i = 0; i < a.params.size(); ++i) {
    if (!IsTensor(a.params[i].kind)) continue;
    if (RankOf(a.params[i].tensor, a_lead) != RankOf(b.params[i].tensor, b_lead)) return false;
  }
  return true;
}
// True if every choice of words in `box`, one set of words per parameter, is in one of `earlier`.
// Takes a form to be reachable (false) after many steps: their number may grow exponentially with
// the forms, and the compiler runs this.
constexpr bool CoverWords(const std::vector<std::vector<std::uint64_t>>& earlier, std::size_t k,
                          std::vector<std::uint64_t> box, int& steps) {
  if (--steps < 0 || k == earlier.size()) return false;
  for (std::size_t i = 0; i < box.size(); ++i) {
    if (box[i] && !(box[i] & earlier[k][i])) return CoverWords(earlier, k + 1, box, steps);
  }
  for (std::size_t i = 0; i < box.size(); ++i) {
    const std::uint64_t others = box[i] & ~earlier[k][i];
    if (!others) continue;
    std::vector<std::uint64_t> rest = box;
    rest[i] = others;
    if (!CoverWords(earlier, k + 1, rest, steps)) return false;
    box[i] &= earlier[k][i];
  }
  return true;
}
// Per parameter, the words of `later` that `form` has too, by their place in `later`.
// A mask holds all of them, because a parameter has at most 64 words.
constexpr std::vector<std::uint64_t> SharedWords(const Form& form, const Form& later) {
  std::vector<std::uint64_t> masks(later.params.size());
  for (std::size_t i = 0; i < masks.size(); ++i) {
    const auto& words = later.params[i].words;
    for (std::size_t w = 0; w < words.size(); ++w) {
      if (HasWord(form.params[i], words[w])) masks[i] |= 1ull << w;
    }
  }
  return masks;
}
constexpr int LargestRank(const Form& form, int lead) {
  int largest = 0;
  for (const Param& p : form.params) {
    if (IsTensor(p.kind) && RankOf(p.tensor, lead) > largest) largest = RankOf(p.tensor, lead);
  }
  return largest;
}
// True if every call that fits the words and ranks of the last form fits an earlier one: a call
// takes the first form that fits, by words and ranks alone.
constexpr bool HidesLast(const std::vector<Form>& forms) {
  const Form& later = forms.back();
  bool dots = false;
  for (const Param& p : later.params) dots |= p.tensor.has_dots;
  int steps = 10000;
  for (int lead = 0; lead <= (dots ? kMaxRank : 0); ++lead) {
    if (LargestRank(later, lead) > kMaxRank) break;
    std::vector<std::vector<std::uint64_t>> same_ranks;
    for (std::size_t k = 0; k + 1 < forms.size(); ++k) {
      bool found = false;
      for (int other = 0; other <= kMaxRank && !found; ++other) {
        found = SameRanks(forms[k], other, later, lead);
      }
      if (found) same_ranks.push_back(SharedWords(forms[k], later));
    }
    if (!CoverWords(same_ranks, 0, SharedWords(later, later), steps)) return false;
  }
  return true;
}

// A word in a condition must be one that the parameter takes in some form.
constexpr void CheckWords(const std::vector<Form>& forms, const Form& form, std::size_t from = 0) {
  for (std::size_t k = from; k < form.nodes.size(); ++k) {
    const Node& n = form.nodes[k];
    if (!IsComparison(n.op) || form.node(n.a).type != Type::kWord) continue;
    const Node &a = form.node(n.a), &b = form.node(n.b);
    if (a.op == b.op) Fail("compare a parameter with a 'word'", n.position);
    const Node &param = a.op == NodeOp::kParam ? a : b, &word = a.op == NodeOp::kParam ? b : a;
    bool found = false;
    for (const Form& f : forms) found |= HasWord(f.params[std::size_t(param.i)], word.text);
    if (!found) Fail("this is none of the parameter's words", word.position);
  }
}

}  // namespace anyop::parse
