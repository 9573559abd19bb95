// SPDX-License-Identifier: Apache-2.0
// The words of the signature language: names, numbers, dtypes, and the sentences about them.
#pragma once
#include "anyop/signature.h"

namespace anyop::parse {

// Arrays and no literals, because who catches an error compares its text by address.
inline constexpr char kUnknownName[] =
    "unknown name: neither a parameter nor a variable that some dimension of an input binds";
// For a name that may be a misspelt dtype: the runtime adds the nearest dtype to these texts.
struct NoDTypeText {
  char text[32 * kDTypes] = {};
  constexpr NoDTypeText() {
    char* at = text;
    const auto put = [&](std::string_view part) {
      for (const char c : part) *at++ = c;
    };
    put("expected a dtype");
    for (int d = 0; d < kDTypes; ++d) put(d ? ", " : ": "), put(kDTypeRows[d].name);
  }
};
inline constexpr NoDTypeText kNoDTypeText;
inline constexpr const char* kNoDType = kNoDTypeText.text;
inline constexpr char kNoDTypeVariable[] =
    "neither a dtype nor a dtype variable, which begins with a capital letter (T) and is no "
    "dtype's name";
inline constexpr char kLoneDTypeVariable[] =
    "this dtype variable is used once and constrained nowhere: write the dtypes that it stands "
    "for here, or in a condition (T in f32 | bf16)";

constexpr bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }
constexpr bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// Not constexpr: a constant expression that calls it does not compile, and the compiler's message
// shows the line of that call, which holds the text.
[[noreturn]] inline void Fail(const char* what, std::size_t position) {
  throw SignatureError{what, position};
}

struct Literal {
  bool is_float = false;
  std::int64_t i = 0;
  double f = 0;
};

struct Lexer {
  std::string_view text;
  std::size_t at = 0;

  [[noreturn]] void FailHere(const char* what) const { Fail(what, at); }
  constexpr char Peek(std::size_t ahead = 0) const {
    return at + ahead < text.size() ? text[at + ahead] : '\0';
  }
  constexpr void Skip() {
    while (at < text.size() && IsSpace(text[at])) ++at;
  }
  // Compares the first letter first: most tokens are not there, and the compiler runs this for each
  // operator.
  constexpr bool At(std::string_view token) {
    Skip();
    return Peek() == token[0] && (token.size() == 1 || text.substr(at).starts_with(token));
  }
  constexpr bool Eat(std::string_view token) {
    if (!At(token)) return false;
    at += token.size();
    return true;
  }
  constexpr void Need(std::string_view token, const char* what) {
    if (!Eat(token)) FailHere(what);
  }
  // The name that comes next, or "".
  constexpr std::string_view PeekName() {
    Skip();
    std::size_t end = at;
    if (end < text.size() && IsLetter(text[end])) {
      while (end < text.size() && (IsLetter(text[end]) || IsDigit(text[end]))) ++end;
    }
    return text.substr(at, end - at);
  }
  constexpr bool EatName(std::string_view name) {
    Skip();
    if (Peek() != name[0] || PeekName() != name) return false;
    at += name.size();
    return true;
  }
  constexpr std::string_view Name(const char* what) {
    const std::string_view name = PeekName();
    if (name.empty()) FailHere(what);
    if (name.size() > kMaxName) FailHere("a name has at most 100 characters");
    at += name.size();
    return name;
  }
  constexpr std::string_view Word() {
    Need("'", "expected a 'word'");
    const std::size_t begin = at;
    while (Peek() >= ' ' && Peek() <= '~' && Peek() != '\'' && Peek() != '"' && Peek() != '\\')
      ++at;
    if (Peek() != '\'')
      Fail("this word does not end: expected ' after printable characters", begin - 1);
    if (at - begin > kMaxName) Fail("a word has at most 100 characters", begin - 1);
    return text.substr(begin, at++ - begin);
  }
  constexpr int DType() {
    const std::string_view name = PeekName();
    const int d = FindDType(name);
    if (d < 0) FailHere(kNoDType);
    at += name.size();
    return d;
  }
  constexpr std::uint32_t DTypeSet() {
    std::uint32_t mask = 0;
    do {
      Skip();
      const std::size_t start = at;
      const std::uint32_t bit = 1u << DType();
      if (mask & bit) Fail("this dtype is listed twice", start);
      mask |= bit;
    } while (Eat("|"));
    return mask;
  }
  constexpr std::int64_t Digits() {
    if (!IsDigit(Peek())) FailHere("expected a number");
    std::int64_t v = 0;
    for (; IsDigit(Peek()); ++at) {
      if (v > (INT64_MAX - (Peek() - '0')) / 10) FailHere("this number needs more than 63 bits");
      v = v * 10 + (Peek() - '0');
    }
    return v;
  }
  // Correctly rounded where the digits are below 2^53 and the exponent is at most 22, as in all
  // reasonable constants: both factors are exact then, and only the product or quotient is rounded.
  constexpr Literal Number() {
    Skip();
    const bool negative = Peek() == '-';
    if (negative) ++at;
    Literal n;
    if (EatName("inf")) {
      n.is_float = true;
      n.f = negative ? -__builtin_inf() : __builtin_inf();
      return n;
    }
    if (Peek() != '.' || !IsDigit(Peek(1))) n.i = Digits();
    int exponent = 0;
    if (Peek() == '.' && Peek(1) != '.') {
      n.is_float = true;
      for (++at; IsDigit(Peek()); ++at, --exponent) {
        if (n.i > (INT64_MAX - 9) / 10) FailHere("this number has too many digits");
        n.i = n.i * 10 + (Peek() - '0');
      }
    }
    const bool has_sign = Peek(1) == '-' || Peek(1) == '+';
    if ((Peek() == 'e' || Peek() == 'E') && IsDigit(Peek(has_sign ? 2 : 1))) {
      n.is_float = true;
      const bool down = Peek(1) == '-';
      at += has_sign ? 2 : 1;
      const std::int64_t e = Digits();
      if (e > 300) FailHere("this exponent is beyond 300");
      exponent += int(down ? -e : e);
    }
    double power = 1;
    for (int k = exponent < 0 ? -exponent : exponent; k > 0; --k) power *= 10;
    n.f = exponent < 0 ? double(n.i) / power : double(n.i) * power;
    if (negative) n.i = -n.i, n.f = -n.f;
    return n;
  }
};

}  // namespace anyop::parse
