// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/composition.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "platform/error.h"

namespace anyop {
namespace {

class CompositionParser {
 public:
  CompositionParser(Contract& contract, std::string_view text, CompositionField field)
      : contract_(contract), text_(text), field_(field) {}

  Composition Parse() {
    composition_.text = std::string(text_);
    while (!AtEnd()) {
      ParseStatement();
      if (AtEnd()) break;
      if (!Take(';')) FailHere("expected ';'");
    }
    if (composition_.statements.empty()) FailHere("expected a statement");
    return std::move(composition_);
  }

 private:
  [[noreturn]] void FailHere(const std::string& what) {
    Fail(ANYOP_INVALID_ARGUMENT, "a composition of " + contract_.name + ", " +
                                     PointAt(text_, SignatureError{what.c_str(), at_}));
  }
  void SkipSpace() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool AtEnd() {
    SkipSpace();
    return at_ == text_.size();
  }
  bool Take(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  // A name; that of an operator may have its library's in front: "my_ops.scale".
  std::string_view Identifier(const char* expected) {
    SkipSpace();
    const std::size_t begin = at_;
    const auto is_letter = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
    };
    while (at_ < text_.size() && is_letter(text_[at_])) ++at_;
    if (begin == at_) FailHere(expected);
    return text_.substr(begin, at_ - begin);
  }

  void ParseStatement() {
    SkipSpace();
    const std::size_t begin = at_;
    Statement s;
    // The first name is the operator's where "(" follows it, else a result's.
    std::vector<std::string_view> names{Identifier("expected a result or an operator")};
    SkipSpace();
    if (at_ < text_.size() && text_[at_] != '(') {
      while (Take(',')) names.push_back(Identifier("expected a result"));
      Need('=');
      s.op = Identifier("expected an operator");
    } else {
      s.op = names[0];
      names.clear();
    }
    Need('(');
    if ((s.view.kind = ViewKind(s.op)) != StatementView::kNone) {
      ParseView(&s.view);
    } else if (!Take(')')) {
      do {
        s.arguments.push_back(ParseArgument());
      } while (Take(','));
      Need(')');
    }
    s.text = std::string(text_.substr(begin, at_ - begin));
    if (field_ == CompositionField::kPrepack && TakeIf()) {
      s.conditions = CompileConditions(contract_, ConditionText());
    }
    // After the arguments: in `x = f(x)` the argument is the earlier x.
    for (std::string_view n : names) s.results.push_back(AddResult(n));
    if (s.view.kind != StatementView::kNone) CheckViewResults(s);
    composition_.statements.push_back(std::move(s));
  }

  static StatementView::Kind ViewKind(std::string_view op) {
    if (op == "slice") return StatementView::kSlice;
    if (op == "reshape") return StatementView::kReshape;
    return op == "transpose" ? StatementView::kTranspose : StatementView::kNone;
  }

  // What stands behind "slice(", "reshape(" or "transpose(".
  void ParseView(StatementView* view) {
    if (field_ == CompositionField::kPrepack) FailHere("views are statements of .means alone");
    view->base = ParseArgument();
    if (!IsTensorName(view->base)) FailHere("a view is of a tensor that has a name");
    Need(',');
    if (view->kind == StatementView::kReshape) {
      Need('[');
      if (!Take(']')) {
        do view->sizes.push_back(CompileExpression(contract_, ArgumentText()));
        while (Take(','));
        Need(']');
      }
      if (view->sizes.size() > std::size_t(kMaxRank)) FailHere("a tensor has at most 8 dimensions");
    } else {
      view->a = ParseDimension();
      Need(',');
      if (view->kind == StatementView::kTranspose) {
        view->b = ParseDimension();
      } else {
        view->sizes.push_back(CompileExpression(contract_, ArgumentText()));
        Need(',');
        view->sizes.push_back(CompileExpression(contract_, ArgumentText()));
      }
    }
    Need(')');
  }
  bool IsTensorName(const StatementArgument& a) const {
    if (a.kind == StatementArgument::kParameter) {
      return contract_.forms[0].params[std::size_t(a.index)].kind == ParamKind::kTensor;
    }
    return a.kind == StatementArgument::kResult || a.kind == StatementArgument::kLocal;
  }
  // One digit, because a tensor has at most 8 dimensions.
  int ParseDimension() {
    const std::string_view text = ArgumentText();
    if (text.size() != 1 || text[0] < '0' || text[0] >= '0' + kMaxRank) {
      FailHere("expected a dimension, from 0 to 7");
    }
    return text[0] - '0';
  }
  void CheckViewResults(const Statement& s) {
    if (s.results.size() != 1) FailHere("a view has one result");
    if (s.results[0].is_result) {
      FailHere("a result of the operator has memory of its own, so a call must make it");
    }
  }
  void Need(char c) {
    if (!Take(c)) FailHere(std::string("expected '") + c + "'");
  }

  bool TakeIf() {
    SkipSpace();
    if (text_.substr(at_, 3) != "if ") return false;
    at_ += 3;
    return true;
  }
  // Up to the `;` that ends the statement; a word in quotes may have one.
  std::string_view ConditionText() {
    const std::size_t begin = at_;
    for (bool in_word = false; at_ < text_.size() && (in_word || text_[at_] != ';'); ++at_) {
      if (text_[at_] == '\'') in_word = !in_word;
    }
    const std::string_view text = text_.substr(begin, at_ - begin);
    if (text.find_first_not_of(" \t") == text.npos) FailHere("expected a condition");
    return text;
  }

  StatementResult AddResult(std::string_view name) {
    const int r = contract_.result(name);
    if (r >= 0) {
      defined_results_ |= 1u << r;
      return {true, r};
    }
    if (contract_.param(name) >= 0) FailHere("a statement cannot assign to a parameter");
    composition_.locals.emplace_back(name);
    return {false, int(composition_.locals.size()) - 1};
  }

  // The text of an argument, up to the comma or parenthesis that ends it. Those within brackets,
  // parentheses and words in quotes end nothing.
  std::string_view ArgumentText() {
    SkipSpace();
    const std::size_t begin = at_;
    int depth = 0;
    bool in_word = false;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\'') in_word = !in_word;
      if (in_word) continue;
      if (c == '(' || c == '[') ++depth;
      if (depth == 0 && (c == ')' || c == ']' || c == ',')) break;
      if (c == ')' || c == ']') --depth;
    }
    std::string_view text = text_.substr(begin, at_ - begin);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    if (text.empty()) FailHere("expected an argument");
    return text;
  }

  StatementArgument ParseArgument() {
    std::string_view text = ArgumentText();
    std::string keyword;
    // "name = value", but not the `=` of "a == b" or of a word in quotes.
    const std::size_t equal = text.find('=');
    if (equal != text.npos && text.find('\'') > equal && text[equal + 1] != '=') {
      keyword = std::string(text.substr(0, text.find_first_of(" =")));
      text.remove_prefix(equal + 1);
      while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    }
    StatementArgument a = Classify(text);
    a.keyword = std::move(keyword);
    a.text = std::string(text);
    return a;
  }

  // Names are looked for first. Text that is none of them is an expression, or fails as one.
  StatementArgument Classify(std::string_view text) {
    StatementArgument a;
    if (text == "None") return a;
    if (text.front() == '\'') {
      a.kind = StatementArgument::kWord;
    } else if (text.front() == '[') {
      a.kind = StatementArgument::kList;
      ParseList(text, &a.list);
    } else if ((a.index = contract_.param(text)) >= 0) {
      a.kind = StatementArgument::kParameter;
    } else if ((a.index = contract_.result(text)) >= 0) {
      a.kind = StatementArgument::kResult;
      if (!(defined_results_ >> a.index & 1)) FailHere("this result is not computed before");
    } else if ((a.index = Local(text)) >= 0) {
      a.kind = StatementArgument::kLocal;
    } else if ((a.index = FindDType(text)) >= 0) {
      a.kind = StatementArgument::kDType;
    } else if (IsDTypeVar(text)) {
      a.kind = StatementArgument::kDTypeVar;
    } else {
      a.kind = StatementArgument::kExpression;
      a.expression = CompileExpression(contract_, text);
    }
    return a;
  }

  // The last intermediate of that name, as a name may be assigned again; -1: none.
  int Local(std::string_view name) const {
    const auto& l = composition_.locals;
    const auto found = std::find(l.rbegin(), l.rend(), name);
    return found == l.rend() ? -1 : int(l.rend() - found) - 1;
  }
  bool IsDTypeVar(std::string_view name) const {
    return std::any_of(contract_.forms.begin(), contract_.forms.end(),
                       [&](const Form& f) { return f.dtype_var(name) >= 0; });
  }
  void ParseList(std::string_view text, std::vector<std::int64_t>* list) {
    const char* p = text.data() + 1;
    const char* end = text.data() + text.size();
    while (p < end && *p != ']') {
      if (*p == ' ' || *p == ',') {
        ++p;
        continue;
      }
      const auto [next, error] = std::from_chars(p, end, list->emplace_back());
      if (error != std::errc()) FailHere("expected a list of whole numbers");
      p = next;
    }
  }

  Contract& contract_;
  std::string_view text_;
  CompositionField field_;
  std::size_t at_ = 0;
  Composition composition_;
  unsigned defined_results_ = 0;
};

}  // namespace

std::vector<Composition> ParseCompositions(Contract& contract, std::string_view text,
                                           CompositionField field) {
  std::vector<Composition> all;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (line.find_first_not_of(" \t") != line.npos) {
      all.push_back(CompositionParser(contract, line, field).Parse());
    }
    begin = end + 1;
  }
  if (all.size() > 1 && all.size() != contract.forms.size()) {
    Fail(ANYOP_INVALID_ARGUMENT, "a composition of " + contract.name + " has " +
                                     std::to_string(all.size()) +
                                     " lines, but must have one, or one for each of the " +
                                     std::to_string(contract.forms.size()) + " forms.");
  }
  return all;
}

}  // namespace anyop
