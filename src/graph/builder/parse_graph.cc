// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <map>

#include "graph/builder/builder.h"
#include "graph/builder/parse_graph.h"
#include "graph/ir/size_text.h"
#include "graph/ir/text.h"
#include "platform/error.h"
#include "runtime/registry/operator.h"
#include "signature/defaults.h"

namespace anyop {
namespace {

// "a: f32[n, 2]" on the left of a statement.
struct TypedName {
  std::string name, type;
  std::size_t at = 0;
  bool is_into = false, is_declined = false;
};

class GraphParser : parse::Lexer {
 public:
  GraphParser(std::string_view t, const GraphData& data) : Lexer{t}, data_(data) {}

  Graph Parse() {
    for (SkipLines(); at < text.size(); SkipLines()) ParseLine();
    return builder_.Finish();
  }
  std::size_t at_error() const { return line_; }

 private:
  // Blank lines and those of a comment alone.
  void SkipLines() {
    while (true) {
      Skip();
      if (Peek() != '#') break;
      at = std::min(text.find('\n', at), text.size());
    }
    line_ = at;
  }
  // Blanks, not the end of the line.
  bool AtLineEnd() {
    while (Peek() == ' ' || Peek() == '\t') ++at;
    return at >= text.size() || Peek() == '\n' || Peek() == '#';
  }

  // A word is a keyword only before a name: a value may be called `input` or `output`.
  bool EatKeyword(std::string_view word) {
    const std::size_t begin = at;
    if (EatName(word) && Peek() == ' ' && !PeekName().empty()) return true;
    at = begin;
    return false;
  }

  void ParseLine() {
    if (EatKeyword("input")) {
      ParseInput();
    } else if (EatKeyword("state")) {
      ParseState(false, false);
    } else if (EatKeyword("frozen")) {
      ParseState(true, false);
    } else if (EatKeyword("constant")) {
      ParseState(false, true);
    } else if (EatKeyword("output")) {
      const int value = Value();
      builder_.Output(value,
                      !AtLineEnd() && EatName("as") ? Name("expected the output's name") : "");
    } else {
      ParseStatement();
    }
    if (!AtLineEnd()) FailHere("expected the end of the line");
  }

  std::string ParseTyped(std::string* name) {
    *name = Name("expected the value's name");
    Need(":", "expected : and the value's type");
    Skip();
    const std::size_t begin = at;
    if (!PeekName().empty()) at += PeekName().size();
    if (Peek() == '[') {
      const std::size_t end = text.find(']', at);
      if (end == text.npos) FailHere("this shape does not end: expected ]");
      at = end + 1;
    }
    return std::string(text.substr(begin, at - begin));
  }

  void ParseInput() {
    std::string name;
    const std::string type = ParseTyped(&name);
    const int id = type == "int"     ? builder_.Scalar(name, ParamKind::kInt)
                   : type == "float" ? builder_.Scalar(name, ParamKind::kFloat)
                   : type == "bool"  ? builder_.Scalar(name, ParamKind::kBool)
                                     : builder_.Input(name, type);
    values_.emplace(name, id);
  }

  void ParseState(bool is_frozen, bool is_constant) {
    std::string name;
    const std::string type = ParseTyped(&name);
    const Array data = data_ ? data_(name) : Array();
    if (data.is_none()) {
      Fail(ANYOP_INVALID_ARGUMENT, "there is no data for " + name + ", which is " + type + ".");
    }
    const int id =
        is_constant ? builder_.Constant(name, data) : builder_.State(name, data, is_frozen);
    CheckType(id, type);
    values_.emplace(name, id);
  }

  void CheckType(int id, const std::string& type) {
    const std::string is = ShowType(builder_.graph(), id);
    if (is == type) return;
    Fail(ANYOP_INVALID_ARGUMENT,
         builder_.graph().value(id).name + " is " + is + ", but the text says " + type + ".");
  }

  int Value() {
    Skip();
    const std::size_t begin = at;
    const std::string_view name = Name("expected a value");
    const auto found = values_.find(name);
    if (found == values_.end()) parse::Fail("no value above has this name", begin);
    return found->second;
  }
  Size ParseSum() {
    SizeParser parser{*this, [this](std::string_view name) { return Symbol(name); }};
    const Size size = parser.Sum();
    at = parser.lexer.at;
    return size;
  }
  Size Symbol(std::string_view name) {
    const int known = builder_.FindSymbol(name);
    if (known < 0) FailHere("no value and no size above has this name");
    return Size::Symbol(known);
  }

  // "a: f32[n], into b = anyop.op(x)": results, then the call or view that makes them.
  void ParseStatement() {
    std::vector<TypedName> left;
    const std::size_t begin = at;
    if (EatKeyword("into") || (Skip(), PeekName() == "_") || IsTyped()) {
      at = begin;
      do left.push_back(ParseLeft());
      while (Eat(","));
      Need("=", "expected = and a call");
    }
    Skip();
    const std::size_t call = at;
    const std::string_view name = Name("expected an operator, slice, reshape or transpose");
    if (Peek() == '.') {
      ++at;
      Name("expected the operator's name");
      return ParseCall(std::string(text.substr(call, at - call)), left);
    }
    if (left.size() != 1) parse::Fail("a view has one result", call);
    const int id = ParseView(name, call);
    builder_.SetPlaceOfView(id, Place());
    Assign(left[0], id);
  }
  bool IsTyped() {
    const std::size_t begin = at;
    Name("expected a statement");
    const bool is_typed = Peek() == ':';
    at = begin;
    return is_typed;
  }
  TypedName ParseLeft() {
    TypedName t;
    Skip();
    t.at = at;
    if (EatName("_")) {
      t.is_declined = true;
    } else if (EatKeyword("into")) {
      t.is_into = true;
      t.name = Name("expected a value");
    } else {
      t.type = ParseTyped(&t.name);
    }
    return t;
  }
  void Assign(const TypedName& t, int id) {
    builder_.Rename(id, t.name);
    CheckType(id, t.type);
    if (!values_.emplace(t.name, id).second) parse::Fail("another value has this name", t.at);
  }

  int ParseView(std::string_view what, std::size_t begin) {
    Need("(", "expected (");
    const int base = Value();
    Need(",", "expected ,");
    int id = -1;
    if (what == "reshape") {
      SizeParser parser{*this, [this](std::string_view name) { return Symbol(name); }};
      std::vector<Size> shape = parser.Shape();
      at = parser.lexer.at;
      id = builder_.Reshape(base, std::move(shape));
    } else if (what == "slice" || what == "transpose") {
      const int a = Dimension();
      Need(",", "expected ,");
      if (what == "transpose") {
        id = builder_.Transpose(base, a, Dimension());
      } else {
        const Size from = ParseSum();
        Need(",", "expected ,");
        id = builder_.Slice(base, a, from, ParseSum());
      }
    } else {
      parse::Fail("expected an operator with its library, slice, reshape or transpose", begin);
    }
    Need(")", "expected )");
    return id;
  }

  void ParseCall(const std::string& name, const std::vector<TypedName>& left) {
    Operator& op = *Find(name);
    std::vector<GraphArgument> arguments(std::size_t(op.n_params));
    std::uint64_t given = 0;
    Need("(", "expected (");
    if (!Eat(")")) {
      int next = 0;
      do {
        const int i = ParseName(op, next);
        if (i >= op.n_params) FailHere("the operator has fewer parameters");
        if (given >> i & 1) FailHere("this argument is given twice");
        given |= 1ull << i;
        arguments[std::size_t(i)] = Argument(op, i);
        next = i + 1;
      } while (Eat(","));
      Need(")", "expected , or )");
    }
    for (int i = 0; i < op.n_params; ++i) {
      if (!(given >> i & 1)) arguments[std::size_t(i)] = builder_.Default(op, i);
    }
    if (int(left.size()) != op.n_results) FailHere("the operator has another number of results");
    GraphBuilder::CallOptions options;
    for (std::size_t r = 0; r < left.size(); ++r) {
      options.declined |= std::uint32_t(left[r].is_declined) << r;
      options.into.push_back(left[r].is_into ? IntoValue(left[r]) : -1);
    }
    builder_.SetPlace(Place());
    const std::vector<int> results = builder_.Call(op, std::move(arguments), options);
    builder_.SetPlace("");
    const auto is_made = [&](std::size_t r) { return !left[r].is_declined && !left[r].is_into; };
    // Two results may have each other's names, as fusion leaves them: all step aside first.
    for (std::size_t r = 0; r < left.size() && left.size() > 1; ++r) {
      if (is_made(r)) builder_.Rename(results[r], builder_.FreeName("renamed"));
    }
    for (std::size_t r = 0; r < left.size(); ++r) {
      if (is_made(r)) Assign(left[r], results[r]);
    }
  }
  int IntoValue(const TypedName& t) {
    const auto found = values_.find(t.name);
    if (found == values_.end()) parse::Fail("no value above has this name", t.at);
    return found->second;
  }
  // "name=" before an argument: its parameter; else `next`.
  int ParseName(const Operator& op, int next) {
    Skip();
    const std::size_t begin = at;
    const std::string_view name = PeekName();
    at += name.size();
    if (!name.empty() && Eat("=")) {
      const int i = op.contract->param(name);
      if (i < 0) parse::Fail("no parameter of the operator has this name", begin);
      return i;
    }
    at = begin;
    return next;
  }
  // The comment at the end of the line.
  std::string Place() {
    if (!AtLineEnd() || Peek() != '#') return "";
    ++at;
    while (Peek() == ' ') ++at;
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string place(text.substr(at, end - at));
    at = end;
    return place;
  }

  GraphArgument Argument(const Operator& op, int i) {
    const ParamKind kind = op.contract->forms[0].params[std::size_t(i)].kind;
    Skip();
    if (EatName("None")) return {};
    if (EatName("True")) return BoolArgument(true);
    if (EatName("False")) return BoolArgument(false);
    if (Peek() == '\'') return WordArgument(Word());
    if (Peek() == '[') return List(kind);
    const std::string_view name = PeekName();
    if (kind == ParamKind::kDType && FindDType(name) >= 0) {
      at += name.size();
      return DTypeArgument(anyop::DType(FindDType(name)));
    }
    const auto value = values_.find(name);
    const bool is_symbol =
        value == values_.end() || builder_.graph().value(value->second).symbol >= 0;
    if (!name.empty() && !is_symbol) return ValueArgument(Value());
    const bool is_float = name.empty() || name == "inf" || name == "nan";
    if (kind == ParamKind::kFloat && is_float) return FloatArgument(Float());
    if (kind == ParamKind::kInt && name.empty() && Peek() == '-' && IsDigit(Peek(1))) {
      const std::size_t begin = at;
      const std::int64_t i64 = WholeNumber();
      if (At(",") || At(")")) return IntArgument(i64);
      at = begin;
    }
    return SizeArgument(ParseSum());
  }
  static bool IsDigit(char c) { return parse::IsDigit(c); }
  // A whole number of 64 bits. 1.5 only begins with one: read as 1 it would be another number.
  std::int64_t WholeNumber() {
    Skip();
    std::int64_t n = 0;
    const char* begin = text.data() + at;
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), n);
    if (error == std::errc::result_out_of_range) FailHere("this number needs more than 64 bits");
    const std::size_t after = at + std::size_t(end - begin);
    const char next = after < text.size() ? text[after] : '\0';
    if (error != std::errc() || next == '.' || parse::IsLetter(next)) {
      FailHere("expected a whole number");
    }
    at = after;
    return n;
  }
  int Dimension() {
    Skip();
    const std::size_t begin = at;
    const std::int64_t n = WholeNumber();
    if (n < 0 || n >= kMaxRank) parse::Fail("expected a dimension, from 0 to 7", begin);
    return int(n);
  }
  // As Print writes them: "1e+30", "-inf" too.
  double Float() {
    Skip();
    double f = 0;
    const char* begin = text.data() + at;
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), f);
    if (error != std::errc()) FailHere("expected a number");
    at += std::size_t(end - begin);
    return f;
  }
  GraphArgument List(ParamKind kind) {
    Need("[", "expected [");
    std::vector<int> values;
    std::vector<std::int64_t> ints;
    std::vector<double> floats;
    while (!Eat("]")) {
      if (kind == ParamKind::kTensors) {
        values.push_back(Value());
      } else if (kind == ParamKind::kFloats) {
        floats.push_back(Float());
      } else {
        ints.push_back(WholeNumber());
      }
      if (!At("]")) Need(",", "expected , or ]");
    }
    if (kind == ParamKind::kTensors) return ValuesArgument(std::move(values));
    return kind == ParamKind::kFloats ? FloatsArgument(std::move(floats))
                                      : IntsArgument(std::move(ints));
  }

  const GraphData& data_;
  GraphBuilder builder_;
  std::map<std::string, int, std::less<>> values_;
  std::size_t line_ = 0;
};

}  // namespace

Graph ParseGraph(std::string_view text, const GraphData& data) {
  GraphParser parser(text, data);
  try {
    return parser.Parse();
  } catch (const SignatureError& e) {
    Fail(ANYOP_INVALID_ARGUMENT, "graph, " + PointAt(text, e));
  } catch (const Error& e) {
    std::string what = e.what();
    if (what.ends_with('.')) what.pop_back();  // PointAt ends the sentence
    const SignatureError here{what.c_str(), parser.at_error()};
    Fail(e.code, "graph, " + PointAt(text, here));
  }
}

}  // namespace anyop
