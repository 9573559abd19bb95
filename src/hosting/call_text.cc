// SPDX-License-Identifier: Apache-2.0
#include "hosting/call_text.h"

#include <charconv>
#include <cmath>

#include "anyop/value.h"
#include "platform/error.h"
#include "platform/threads.h"
#include "runtime/plan/policy.h"
#include "runtime/run/call.h"

namespace anyop {
namespace {

constexpr std::string_view kFormatName = "anyop.call/", kFormatVersion = "1";

constexpr char kHexDigits[] = "0123456789abcdef";

bool IsPrintableAscii(char c) { return c >= ' ' && c <= '~'; }

// "\x0a" for a byte that is no printable ASCII, so that any file and any compiler can hold the
// text.
std::string InEscapedQuotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (IsPrintableAscii(c)) {
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'\\', 'x', kHexDigits[byte >> 4], kHexDigits[byte & 15]};
    }
  }
  return out + "\"";
}

template <class F>
std::string ItemsInBrackets(std::uint32_t count, F&& element) {
  std::string out = "[";
  for (std::uint32_t i = 0; i < count; ++i) out += (i ? ", " : "") + std::string(element(i));
  return out + "]";
}

std::string DTypeText(const Operator& op, int param, const DLTensor& t) {
  const int dtype = FromDL(t.dtype);
  if (dtype >= 0) return std::string(kDTypeRows[dtype].name);
  const Param& p = op.contract->forms[0].params[std::size_t(param)];
  Fail(ANYOP_INVALID_ARGUMENT,
       op.Message(std::string(p.name) + " is " + Show(t) + ", but anyop has no such dtype."));
}

std::string ArgumentText(const Operator& op, int param, const anyop_value& v) {
  switch (v.tag) {
    case ANYOP_TENSOR:
      return DTypeText(op, param, *v.t);
    case ANYOP_TENSORS:
      return ItemsInBrackets(v.count, [&](auto i) { return DTypeText(op, param, *v.ts[i]); });
    case ANYOP_INTS:
      return ItemsInBrackets(v.count, [&](auto i) { return std::to_string(v.is[i]); });
    case ANYOP_FLOATS:
      return ItemsInBrackets(v.count, [&](auto i) { return ExactFloat(v.fs[i]); });
    default:
      return ShowExact(v);
  }
}

class CallReader : public parse::Lexer {
 public:
  explicit CallReader(std::string_view call) : Lexer{call} {}

  CallText Read() {
    ReadVersion();
    const std::size_t start = (Skip(), at);
    const std::size_t end = text.find('(', at);
    if (end == text.npos) FailHere("expected an operator's name and (");
    at = end + 1;
    std::string_view name = text.substr(start, end - start);
    while (!name.empty() && parse::IsSpace(name.back())) name.remove_suffix(1);
    CallText read;
    if (name == "graph" || name == "saved") {
      read.graph = ReadGraphText(name == "saved");
    } else {
      read.op = ReadOperator(*Find(name));
    }
    if (EatName("in")) ReadScope(&read.scope);
    Skip();
    if (at < text.size()) FailHere("expected the end of the text");
    return read;
  }

 private:
  void ReadVersion() {
    if (!text.starts_with(kFormatName)) FailHere("expected anyop.call/1");
    const std::size_t begin = kFormatName.size(), end = std::min(text.find(' '), text.size());
    at = begin;
    const std::string_view version = text.substr(begin, std::max(end, begin) - begin);
    if (version != kFormatVersion) {
      Digits();
      if (at != end) FailHere("expected a number and a blank");
      Fail(ANYOP_NOT_AVAILABLE, "bound call: its text is of version " + std::string(version) +
                                    ", but this anyop reads version 1. Try a newer anyop.");
    }
    at = end;
  }

  std::unique_ptr<OperatorText> ReadOperator(Operator& op) {
    auto made = std::make_unique<OperatorText>(op);
    const Contract& contract = *op.contract;
    std::uint64_t given = 0;
    while (!Eat(")")) {
      if (given) Need(",", "expected , or )");
      const std::size_t start = (Skip(), at);
      const std::string_view name = Name("expected the name of an argument");
      const int i = contract.param(name);
      if (i < 0) RefuseName(op, name);
      if (given >> i & 1) parse::Fail("this argument is given twice", start);
      given |= 1ull << i;
      Need("=", "expected = and a value");
      ReadArgument(*made, i);
    }
    for (int i = 0; i < op.n_params; ++i) {
      const Param& p = contract.forms[0].params[std::size_t(i)];
      if (given >> i & 1 || p.has_default) continue;
      Fail(ANYOP_INVALID_ARGUMENT, op.Message(std::string(p.name) + " is missing."));
    }
    if (op.n_results) made->wanted = ReadResults(op);
    return made;
  }
  [[noreturn]] static void RefuseName(const Operator& op, std::string_view name) {
    std::vector<std::string> known;
    for (const Param& p : op.contract->forms[0].params) known.emplace_back(p.name);
    Fail(ANYOP_INVALID_ARGUMENT,
         op.Message("there is no argument '" + std::string(name) + "'." + NearOrAll(name, known)));
  }

  void ReadArgument(OperatorText& made, int i) {
    const Contract& contract = *made.op->contract;
    const Param& p = contract.forms[0].params[std::size_t(i)];
    OwnedCall& call = made.call;
    if (EatName("None")) {
      if (!p.is_optional) FailHere("this argument may not be None");
      return call.Clear(i);
    }
    switch (p.kind) {
      case ParamKind::kTensor:
        call[i] = TensorValue(ReadTensor(made));
        return;
      case ParamKind::kTensors:
        return ReadTensors(made, i);
      case ParamKind::kInt:
        return call.SetInt(i, Int());
      case ParamKind::kFloat:
        return call.SetFloat(i, Float());
      case ParamKind::kBool:
        return call.SetBool(i, Bool());
      case ParamKind::kDType:
        return call.SetDType(i, anyop::DType(DType()));
      case ParamKind::kInts:
        return call.SetInts(i, List<std::int64_t>([&] { return Int(); }));
      case ParamKind::kFloats:
        return call.SetFloats(i, List<double>([&] { return Float(); }));
      case ParamKind::kWord:
        break;
    }
    const std::string_view word = Word();
    if (contract.word(i, word) < 0) {
      Fail(ANYOP_INVALID_ARGUMENT, made.op->Message(WordError(contract, i, word)));
    }
    call.SetWord(i, word);
  }
  const DLTensor* ReadTensor(OperatorText& made) {
    const DLDataType dtype = ToDL(anyop::DType(DType()));
    return &made.tensors.emplace_back(MakeDLTensor(nullptr, kHostDevice, dtype, -1, nullptr));
  }
  void ReadTensors(OperatorText& made, int i) {
    made.lists.push_back(List<const DLTensor*>([&] { return ReadTensor(made); }));
    made.call[i] = TensorsValue(made.lists.back().data(), made.lists.back().size());
  }
  template <class T, class F>
  std::vector<T> List(F&& element) {
    std::vector<T> list;
    Need("[", "expected [");
    while (!Eat("]")) {
      if (!list.empty()) Need(",", "expected , or ]");
      list.push_back(element());
    }
    return list;
  }

  std::uint32_t ReadResults(const Operator& op) {
    Need("->", "expected -> and the results, _ for those that are not wanted");
    std::uint32_t wanted = 0;
    for (int r = 0; r < op.n_results; ++r) {
      if (r) Need(",", "expected , and the next result: a name, or _");
      const std::size_t start = (Skip(), at);
      const Result& result = op.contract->forms[0].results[std::size_t(r)];
      const std::string_view name = Name("expected a result's name, or _");
      if (name == result.name) {
        wanted |= 1u << r;
      } else if (name != "_") {
        parse::Fail("the operator's result in this place has another name", start);
      } else if (!result.is_optional) {
        Fail(ANYOP_INVALID_ARGUMENT,
             op.Message("the result " + std::string(result.name) + " cannot be declined."));
      }
    }
    return wanted;
  }

  std::unique_ptr<GraphText> ReadGraphText(bool is_saved) {
    auto made = std::make_unique<GraphText>();
    if (is_saved) {
      made->path = String();
      if (made->path.empty()) FailHere("expected a path before this place");
      Need(",", "expected , and the graph's name");
      made->name = String();
      Need(",", "expected , and the digest of the folder");
      made->digest = String();
    } else {
      made->graph = String();
    }
    while (!Eat(")")) {
      Need(",", "expected , or )");
      GraphNumber number{std::string(Name("expected the name of an input")), {}};
      Need("=", "expected = and a number");
      number.value = Number();
      made->numbers.push_back(std::move(number));
    }
    return made;
  }
  anyop_value Number() {
    const std::string_view name = PeekName();
    const std::string_view token = Token();
    if (name == "True" || name == "False") return BoolValue(Bool());
    // A point, the e of an exponent, or the n of inf and nan.
    if (token.find_first_of(".en") == token.npos) return IntValue(Int());
    return FloatValue(Float());
  }

  void ReadScope(ScopeState* scope) {
    do {
      if (EatName("strict")) {
        scope->is_strict = true;
      } else if (EatName("batch_invariant")) {
        scope->is_batch_invariant = true;
      } else if (EatName("threads")) {
        Need("=", "expected = and a number");
        Skip();
        const std::size_t start = at;
        const std::int64_t n = Int();
        if (n < 1 || n > kMaxThreads) parse::Fail("so many threads cannot be", start);
        scope->threads = int(n);
      } else if (EatName("policy")) {
        Need("=", "expected = and a \"text\"");
        scope->policy = ParsePolicy(String());
      } else {
        FailHere("expected strict, batch_invariant, threads or policy");
      }
    } while (Eat(","));
  }

  // The characters from here on of which a number may consist.
  std::string_view Token() {
    Skip();
    std::size_t end = at;
    const auto is_part = [](char c) {
      return parse::IsLetter(c) || parse::IsDigit(c) || c == '.' || c == '-' || c == '+';
    };
    while (end < text.size() && is_part(text[end])) ++end;
    return text.substr(at, end - at);
  }
  template <class T>
  T FromChars(const char* what) {
    const std::string_view token = Token();
    T value{};
    const char* end = token.data() + token.size();
    const auto read = std::from_chars(token.data(), end, value);
    if (read.ec != std::errc() || read.ptr != end) FailHere(what);
    at += token.size();
    return value;
  }
  std::int64_t Int() { return FromChars<std::int64_t>("expected a whole number of 64 bits"); }
  double Float() {
    // A NaN has one spelling, without its payload, so that equal calls have one text.
    if (EatName("nan")) return std::nan("");
    return FromChars<double>("expected a number that a double can hold");
  }
  bool Bool() {
    if (EatName("True")) return true;
    if (!EatName("False")) FailHere("expected True or False");
    return false;
  }
  std::string String() {
    Need("\"", "expected a text in \"\"");
    std::string out;
    for (; Peek() != '"'; ++at) {
      if (at >= text.size() || !IsPrintableAscii(Peek()))
        FailHere("expected printable ASCII or \"");
      out += Peek() == '\\' ? Escaped() : Peek();
    }
    ++at;
    return out;
  }
  // At the last character of the escape afterwards.
  char Escaped() {
    ++at;
    if (Peek() == '"' || Peek() == '\\') return Peek();
    if (Peek() == 'n') return '\n';
    const std::string_view hex = text.substr(std::min(at + 1, text.size()), 2);
    unsigned byte = 0;
    const auto read = std::from_chars(hex.data(), hex.data() + hex.size(), byte, 16);
    if (Peek() != 'x' || hex.size() != 2 || read.ptr != hex.data() + 2) {
      FailHere("expected \", \\, n or x and two hexadecimal digits after a backslash");
    }
    at += 2;
    return char(byte);
  }
};

}  // namespace

CallText ReadCallText(std::string_view text) {
  try {
    return CallReader(text).Read();
  } catch (const SignatureError& e) {
    constexpr std::size_t kShown = 24;
    const std::size_t position = std::min(e.position, text.size());
    const std::string rest = InEscapedQuotes(text.substr(position, kShown));
    Fail(ANYOP_INVALID_ARGUMENT,
         "bound call: at character " + std::to_string(position + 1) + " of its text, " + rest +
             (text.size() - position > kShown ? " ..." : "") + ": " + e.what + ".");
  }
}

std::string ShowExact(const anyop_value& v) {
  return v.tag == ANYOP_FLOAT ? ExactFloat(v.f) : Show(v);
}

std::string TextOfCall(const Operator& op, const anyop_value* frame, std::uint32_t wanted,
                       const ScopeState& scope) {
  const Form& form = op.contract->forms[0];
  std::string out = std::string(kFormatName) + std::string(kFormatVersion) + " " + op.name + "(";
  for (int i = 0; i < op.n_params; ++i) {
    out += (i ? ", " : "") + std::string(form.params[std::size_t(i)].name) + " = " +
           ArgumentText(op, i, frame[i]);
  }
  out += ")";
  for (int r = 0; r < op.n_results; ++r) {
    const Result& result = form.results[std::size_t(r)];
    const bool is_wanted = !result.is_optional || (wanted >> r & 1);
    out += (r ? ", " : " -> ") + std::string(is_wanted ? result.name : "_");
  }
  return out + ScopeText(scope);
}

std::string ScopeText(const ScopeState& scope) {
  std::string out;
  const auto add = [&](const std::string& item) { out += (out.empty() ? " in " : ", ") + item; };
  if (scope.is_strict) add("strict");
  if (scope.is_batch_invariant) add("batch_invariant");
  if (scope.threads) add("threads = " + std::to_string(scope.threads));
  if (scope.policy) add("policy = " + InEscapedQuotes(scope.policy->text));
  return out;
}

std::string ShowCallText(const GraphText& graph, const ScopeState& scope) {
  std::string out = std::string(kFormatName) + std::string(kFormatVersion);
  if (graph.path.empty()) {
    out += " graph(" + InEscapedQuotes(graph.graph);
  } else {
    out += " saved(" + InEscapedQuotes(graph.path) + ", " + InEscapedQuotes(graph.name) + ", " +
           InEscapedQuotes(graph.digest);
  }
  for (const GraphNumber& n : graph.numbers) out += ", " + n.name + " = " + ShowExact(n.value);
  return out + ")" + ScopeText(scope);
}

}  // namespace anyop
