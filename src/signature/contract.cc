// SPDX-License-Identifier: Apache-2.0
#include "signature/contract.h"

#include <algorithm>
#include <cstdio>

#include "platform/error.h"
#include "signature/comparison.h"

namespace anyop {
namespace {

// The text without spaces, except one between two names, and those in words: a signature that is
// only laid out anew keeps its hash.
std::string WithoutSpaces(std::string_view text) {
  const auto is_name = [](char c) { return parse::IsLetter(c) || parse::IsDigit(c); };
  std::string out;
  bool in_word = false, space = false;
  for (const char c : text) {
    if (!in_word && parse::IsSpace(c)) {
      space = true;
      continue;
    }
    if (space && !out.empty() && is_name(out.back()) && is_name(c)) out += ' ';
    out += c;
    space = false;
    in_word ^= c == '\'';
  }
  return out;
}

// 128 bits: two FNV-1a hashes from different starts, the second one mixed.
std::string Hash(const std::string& text) {
  std::uint64_t a = 0xcbf29ce484222325u, b = 0x9e3779b97f4a7c15u;
  for (const char c : text) {
    a = (a ^ std::uint8_t(c)) * 0x100000001b3u;
    b = (b ^ std::uint8_t(c)) * 0x100000001b3u;
    b ^= b >> 29;
  }
  char out[33];
  std::snprintf(out, sizeof out, "%016llx%016llx", static_cast<unsigned long long>(a),
                static_cast<unsigned long long>(b));
  return out;
}

void NumberWords(Contract& c) {
  c.words.resize(c.forms[0].params.size());
  for (Form& form : c.forms) {
    for (std::size_t i = 0; i < form.params.size(); ++i) {
      for (const std::string_view word : form.params[i].words) {
        int n = c.word(int(i), word);
        if (n < 0) n = int(c.words[i].size()), c.words[i].emplace_back(word);
        if (n >= 64) {
          Fail(ANYOP_INVALID_ARGUMENT,
               c.name + ": " + std::string(form.params[i].name) + " has more than 64 words.");
        }
        form.params[i].word_mask |= 1ull << n;
      }
    }
  }
}

bool IsLiteral(const Form& form, int node, ScalarCheck* check) {
  const Node& n = form.node(node);
  const bool negative = n.op == NodeOp::kNeg;
  const Node& literal = negative ? form.node(n.a) : n;
  if (literal.op != NodeOp::kInt && literal.op != NodeOp::kFloat) return false;
  check->is_float = literal.op == NodeOp::kFloat;
  check->i = negative ? -literal.i : literal.i;
  check->f = negative ? -literal.f : literal.f;
  return true;
}

bool IsPlainNumber(const Form& form, int node) {
  const Node& n = form.node(node);
  if (n.op != NodeOp::kParam) return false;
  const ParamKind kind = form.params[std::size_t(n.i)].kind;
  return kind == ParamKind::kInt || kind == ParamKind::kFloat;
}

bool IsScalarCheck(const Form& form, int node, ScalarCheck* check) {
  const Node& n = form.node(node);
  if (!IsComparison(n.op)) return false;
  const bool straight = IsPlainNumber(form, n.a) && IsLiteral(form, n.b, check);
  if (!straight && !(IsPlainNumber(form, n.b) && IsLiteral(form, n.a, check))) return false;
  check->op = straight ? n.op : Mirrored(n.op);
  check->param = int(form.node(straight ? n.a : n.b).i);
  return true;
}

void FindKeyParams(Contract& c) {
  for (std::size_t i = 0; i < c.forms[0].params.size(); ++i) {
    const ParamKind kind = c.forms[0].params[i].kind;
    if (kind != ParamKind::kInt && kind != ParamKind::kFloat) c.key_params |= 1ull << i;
  }
  c.scalar_checks.resize(c.forms.size());
  for (std::size_t k = 0; k < c.forms.size(); ++k) {
    const Form& form = c.forms[k];
    const auto use = [&](int node) {
      if (node >= 0) c.key_params |= form.node(node).params;
    };
    for (const Param& p : form.params) {
      for (const int d : p.tensor.dims) use(d);
      use(p.size), use(p.bound);
    }
    for (const Result& r : form.results) {
      for (const int d : r.tensor.dims) use(d);
    }
    for (std::size_t i = 0; i < form.conditions.size(); ++i) {
      ScalarCheck check{};
      check.condition = int(i);
      if (IsScalarCheck(form, form.conditions[i].node, &check)) {
        c.scalar_checks[k].push_back(check);
      } else {
        use(form.conditions[i].node);
      }
    }
  }
  // A number that some other place puts into the key is checked once per plan, not per call.
  for (auto& checks : c.scalar_checks) {
    std::erase_if(checks, [&](const ScalarCheck& s) { return c.key_params >> s.param & 1; });
  }
}

}  // namespace

int Contract::word(int param, std::string_view word) const {
  const auto& all = words[std::size_t(param)];
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == word) return int(i);
  }
  return -1;
}

void NumberWordNodes(const Contract& contract, Form& form, std::size_t from) {
  for (std::size_t k = from; k < form.nodes.size(); ++k) {
    const Node& n = form.nodes[k];
    if (!IsComparison(n.op) || form.node(n.a).type != Type::kWord) continue;
    Node &a = form.nodes[std::size_t(n.a)], &b = form.nodes[std::size_t(n.b)];
    Node& word = a.op == NodeOp::kWord ? a : b;
    word.i = contract.word(int((a.op == NodeOp::kWord ? b : a).i), word.text);
  }
}

// Further names of our dtypes in other languages, for suggestions.
static constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"double", "f64"}, {"float", "f32"}, {"single", "f32"},  {"half", "f16"}, {"long", "i64"},
    {"int", "i32"},    {"short", "i16"}, {"char", "i8"},     {"byte", "u8"},  {"fp64", "f64"},
    {"fp32", "f32"},   {"fp16", "f16"},  {"boolean", "bool"}};

// " Did you mean 'bf16'?" where the text has a name that may be a misspelt dtype.
static std::string NearestDType(std::string_view text, const SignatureError& error) {
  const char* what = error.what;  // arrays: compared by address
  if (what != parse::kNoDType && what != parse::kNoDTypeVariable &&
      what != parse::kLoneDTypeVariable) {
    return "";
  }
  parse::Lexer lexer{text, error.position};
  std::string name(lexer.PeekName().substr(0, kMaxName));
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  for (const auto& [other, ours] : kOtherNames) {
    if (name == other) return " Did you mean '" + std::string(ours) + "'?";
  }
  for (const DTypeRow& row : kDTypeRows) {
    if (name == row.long_name) return " Did you mean '" + std::string(row.name) + "'?";
  }
  std::vector<std::string> names;
  for (const DTypeRow& row : kDTypeRows) names.emplace_back(row.name);
  return DidYouMean(name, names);
}

static bool IsSame(const Form& form, int a, int b) {
  if (a < 0 || b < 0) return a == b;
  const Node &x = form.node(a), &y = form.node(b);
  return x.op == y.op && x.i == y.i && x.f == y.f && IsSame(form, x.a, y.a) &&
         IsSame(form, x.b, y.b);
}

static bool MayBeSame(const DTypes& a, const DTypes& b) {
  return a.kind != DTypes::kSet || b.kind != DTypes::kSet || (a.mask & b.mask);
}

// A result can take the memory of a parameter only where both have the same dimensions, and may
// have the same dtype.
static void CheckOver(std::string_view text, const Form& form) {
  for (const Result& r : form.results) {
    for (std::size_t p = 0; p < form.params.size(); ++p) {
      if (!(r.over >> p & 1)) continue;
      const TensorType &x = form.params[p].tensor, &y = r.tensor;
      bool is_same = x.has_dots == y.has_dots && x.dims.size() == y.dims.size() &&
                     MayBeSame(x.dtypes, y.dtypes);
      for (std::size_t i = 0; is_same && i < x.dims.size(); ++i) {
        is_same = IsSame(form, x.dims[i], y.dims[i]);
      }
      if (is_same) continue;
      throw SignatureError{"over names a parameter with the dimensions and the dtype of the result",
                           std::size_t(r.name.data() - text.data())};
    }
  }
}

std::string PointAt(std::string_view text, const SignatureError& error) {
  const std::size_t at = std::min(error.position, text.size());
  std::size_t begin = at, line = 1;
  while (begin > 0 && text[begin - 1] != '\n') --begin;
  line += std::size_t(std::count(text.begin(), text.begin() + std::ptrdiff_t(begin), '\n'));
  const std::size_t end = std::min(text.find('\n', at), text.size());
  // A long line is cut around the place.
  const std::size_t from = at - begin > 80 ? at - 60 : begin;
  const std::size_t to = end - at > 60 ? at + 50 : end;
  std::string shown(text.substr(from, to - from));
  // One '?' for each byte, so that the caret stays below its place.
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return "line " + std::to_string(line) + ", column " + std::to_string(at - begin + 1) + ": " +
         error.what + "." + NearestDType(text, error) + "\n    " + (from > begin ? "..." : "") +
         shown + (to < end ? "..." : "") + "\n    " +
         std::string(at - from + (from > begin ? 3 : 0), ' ') + "^";
}

std::unique_ptr<Contract> ParseContract(std::string_view text, std::string_view gradient) {
  auto contract = std::make_unique<Contract>();
  contract->text = text;
  try {
    contract->forms = ParseForms(contract->text);
    for (const Form& form : contract->forms) CheckOver(contract->text, form);
  } catch (const SignatureError& e) {
    parse::Lexer lexer{text};
    const std::string_view name = lexer.PeekName();
    Fail(ANYOP_INVALID_ARGUMENT,
         (name.empty() ? "a signature"
                       : "the signature of " + std::string(name.substr(0, kMaxName))) +
             ", " + PointAt(text, e));
  }
  contract->name = contract->forms[0].name;
  NumberWords(*contract);
  FindKeyParams(*contract);
  for (Form& form : contract->forms) NumberWordNodes(*contract, form, 0);
  contract->hash = Hash(WithoutSpaces(text) + "\n" + std::string(gradient));
  return contract;
}

}  // namespace anyop
