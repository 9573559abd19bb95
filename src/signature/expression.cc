// SPDX-License-Identifier: Apache-2.0
#include "signature/expression.h"

#include "platform/error.h"

namespace anyop {
namespace {

enum class Want : bool { kNumber, kCondition };

[[noreturn]] void FailAt(const Contract& c, std::string_view text, const SignatureError& e) {
  Fail(ANYOP_INVALID_ARGUMENT, "an expression of " + c.name + ", " + PointAt(text, e));
}

void CheckLength(std::string_view text) {
  if (text.size() > kMaxText) parse::Fail("an expression has at most 65536 characters", kMaxText);
}

// The node of text[at...] in one form; -1 if the form lacks a name. Moves `at` to the end.
int CompileIn(Contract& c, Form& form, std::string_view text, std::size_t* at, Want want,
              ThreadsName threads, SignatureError* unknown) {
  const std::size_t from = form.nodes.size();
  parse::ExpressionParser parser(text, form);
  parser.allow_threads = threads == ThreadsName::kKnown;
  parser.at = *at;
  const int node = parser.ParseCondition();
  parser.Skip();
  *at = parser.at;
  try {
    parser.Resolve(from, form.nodes.size(), parse::Unbound::kRefuse);
  } catch (const SignatureError& e) {
    form.nodes.resize(from);  // takes the unresolved nodes away again
    if (e.what != parse::kUnknownName) throw;
    *unknown = e;
    return -1;
  }
  const Node& n = form.node(node);
  if (n.is_list) parse::Fail("a list is not a number", n.position);
  if (want == Want::kCondition ? n.type != Type::kBool : !IsNumber(n.type)) {
    parse::Fail(
        want == Want::kCondition ? "a condition must be true or false" : "this must be a number",
        n.position);
  }
  parse::CheckWords(c.forms, form, from);
  NumberWordNodes(c, form, from);
  c.key_params |= n.params;  // a plan holds for one value of each number that its kernel depends on
  return node;
}

// One expression of text, from `at` on, in all forms.
Expression CompileAt(Contract& c, std::string_view text, std::size_t* at, Want want,
                     ThreadsName threads = ThreadsName::kUnknown) {
  Expression e;
  const std::size_t begin = *at;
  SignatureError unknown{nullptr, 0};
  bool found = false;
  for (Form& form : c.forms) {
    *at = begin;
    e.node.push_back(CompileIn(c, form, text, at, want, threads, &unknown));
    found |= e.node.back() >= 0;
  }
  if (!found) throw unknown;
  std::size_t end = *at;
  while (end > begin && parse::IsSpace(text[end - 1])) --end;
  e.text = text.substr(begin, end - begin);
  return e;
}

// Numbers that the new expressions put into the key are checked once per plan, not per call.
void DropScalarChecks(Contract& c) {
  for (auto& checks : c.scalar_checks) {
    std::erase_if(checks, [&](const ScalarCheck& s) { return c.key_params >> s.param & 1; });
  }
}

}  // namespace

Expression CompileExpression(Contract& contract, std::string_view text, ThreadsName threads) {
  const std::string_view kept = contract.expression_texts.emplace_back(text);
  try {
    CheckLength(kept);
    std::size_t at = 0;
    parse::Lexer lexer{kept};
    lexer.Skip();
    at = lexer.at;
    Expression e = CompileAt(contract, kept, &at, Want::kNumber, threads);
    if (at < kept.size()) parse::Fail("this is after the end of the expression", at);
    DropScalarChecks(contract);
    return e;
  } catch (const SignatureError& e) {
    FailAt(contract, kept, e);
  }
}

std::vector<Expression> CompileConditions(Contract& contract, std::string_view text) {
  const std::string_view kept = contract.expression_texts.emplace_back(text);
  std::vector<Expression> conditions;
  parse::Lexer lexer{kept};
  lexer.Skip();
  if (lexer.at == kept.size()) return conditions;
  try {
    CheckLength(kept);
    do {
      lexer.Skip();
      conditions.push_back(CompileAt(contract, kept, &lexer.at, Want::kCondition));
    } while (lexer.Eat(","));
    if (lexer.at < kept.size()) lexer.FailHere("expected , between conditions");
    DropScalarChecks(contract);
    return conditions;
  } catch (const SignatureError& e) {
    FailAt(contract, kept, e);
  }
}

}  // namespace anyop
