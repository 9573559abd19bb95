// SPDX-License-Identifier: Apache-2.0
// Reads sizes and shapes: "2*n + 1", "[n, 576]".
#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "anyop/parse_expression.h"
#include "graph/ir/size.h"

namespace anyop {

inline bool IsGraphName(std::string_view name) {
  return parse::Lexer{name}.PeekName() == name && !name.empty() && name != "_";
}

// Throws SignatureError.
struct SizeParser {
  parse::Lexer lexer;
  std::function<Size(std::string_view)> symbol;
  static constexpr int kDeepest = 100;  // of brackets: each takes some of the stack
  int depth = 0;

  Size Sum() {
    Size sum = lexer.Eat("-") ? Size(-1) * Product() : Product();
    while (true) {
      if (lexer.Eat("+")) {
        sum = sum + Product();
      } else if (lexer.Eat("-")) {
        sum = sum - Product();
      } else {
        return sum;
      }
    }
  }
  Size Product() {
    Size product = Factor();
    while (lexer.Eat("*")) product = product * Factor();
    return product;
  }
  Size Factor() {
    if (lexer.Eat("(")) {
      if (++depth > kDeepest) lexer.FailHere("this size is nested too deeply");
      const Size inner = Sum();
      --depth;
      lexer.Need(")", "expected )");
      return inner;
    }
    const std::string_view name = lexer.PeekName();
    if (name.empty()) return Size(lexer.Digits());
    lexer.at += name.size();
    return symbol(name);
  }
  std::vector<Size> Shape() {
    std::vector<Size> shape;
    lexer.Need("[", "expected [ and the dimensions");
    if (lexer.Eat("]")) return shape;
    do shape.push_back(Sum());
    while (lexer.Eat(","));
    lexer.Need("]", "expected ]");
    return shape;
  }
  void End() {
    lexer.Skip();
    if (lexer.at < lexer.text.size()) lexer.FailHere("expected the end");
  }
};

}  // namespace anyop
