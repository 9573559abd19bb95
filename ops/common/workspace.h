// SPDX-License-Identifier: Apache-2.0
// The workspace of a kernel as parts that follow each other. A layout is written once, for any kind
// of number: of names it gives the text of `.workspace`, of the numbers of a call the places of the
// parts.
//
//   template <class N>
//   struct SumsWorkspace : Workspace<N> {
//     Part<float, N> sums;  // [threads, d]
//     constexpr SumsWorkspace(N threads, N d)
//         : sums(this->template Add<float>(threads * d)) {}
//   };
//   constexpr SizeText Bytes() { return SumsWorkspace<SizeText>("threads", "d").bytes(); }
//
//   .workspace = kWorkspace<&Bytes>                                      in a spec
//   const SumsWorkspace<std::int64_t> parts(ThreadsOf(ctx), x.dim(-1));  in a kernel
//   float* sums = Placed(ctx, parts)[parts.sums];
#pragma once
#include <array>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "anyop/op.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// A size as text of the signature language. It refers to the sizes that it is made of, and is
// written once, as a whole: compilers take long for each character that is copied.
class SizeText {
 public:
  // A name, or a function of one name: "d", "rows(x)".
  constexpr SizeText(const char* name) : SizeText({Piece{name}}) {
    if (std::string_view(name).find_first_of(" +-*/,") != std::string_view::npos) throw "no name";
  }
  constexpr SizeText(std::int64_t number) : SizeText({}) {
    number_ = node_->number = number;
    for (std::int64_t n = number; n || !node_->size; n /= 10) ++node_->size;
  }
  constexpr SizeText(const SizeText& other)
      : node_(other.node_), number_(other.number_), is_sum_(other.is_sum_) {
    ++node_->uses;
  }
  constexpr SizeText& operator=(SizeText other) {
    std::swap(node_, other.node_);
    number_ = other.number_, is_sum_ = other.is_sum_;
    return *this;
  }
  constexpr ~SizeText() { Release(node_); }

  constexpr std::size_t size() const { return node_->size; }
  constexpr void Write(char* to) const { Write(*node_, to); }
  std::string text() const {
    std::string text(size(), ' ');
    Write(text.data());
    return text;
  }

  friend constexpr SizeText operator+(const SizeText& a, const SizeText& b) {
    if (a.number_ == 0) return b;
    if (b.number_ == 0) return a;
    return Sum({a, " + ", b});
  }
  friend constexpr SizeText operator-(const SizeText& a, const SizeText& b) {
    return Sum({a, " - ", b.Open(), b, b.Close()});
  }
  friend constexpr SizeText operator*(const SizeText& a, const SizeText& b) {
    if (a.number_ == 1) return b;
    if (b.number_ == 1) return a;
    if (a.number_ >= 0 && b.number_ >= 0) return a.number_ * b.number_;
    return SizeText({a.Open(), a, a.Close(), "*", b.Open(), b, b.Close()});
  }
  friend constexpr SizeText operator/(const SizeText& a, const SizeText& b) {
    return SizeText({"(", a.Open(), a, a.Close(), "/", b.Open(), b, b.Close(), ")"});
  }
  friend constexpr SizeText CeilDiv(const SizeText& a, const SizeText& b) {
    return SizeText({"ceil_div(", a, ", ", b, ")"});
  }
  friend constexpr SizeText Min(const SizeText& a, const SizeText& b) {
    return SizeText({"min(", a, ", ", b, ")"});
  }
  friend constexpr SizeText Max(const SizeText& a, const SizeText& b) {
    return SizeText({"max(", a, ", ", b, ")"});
  }

 private:
  struct Node;
  // A text, or a size.
  struct Piece {
    constexpr Piece() = default;
    constexpr Piece(const char* literal) : text(literal) {}
    constexpr Piece(const SizeText& size) : node(size.node_) {}
    std::string_view text;
    Node* node = nullptr;
  };
  struct Node {
    Piece pieces[9];
    std::size_t count = 0, size = 0;
    std::int64_t number = 0;  // of what has no pieces
    int uses = 1;
  };

  constexpr SizeText(std::initializer_list<Piece> pieces) : node_(new Node) {
    for (const Piece& piece : pieces) {
      if (piece.node) ++piece.node->uses;
      node_->pieces[node_->count++] = piece;
      node_->size += piece.node ? piece.node->size : piece.text.size();
    }
  }
  static constexpr SizeText Sum(std::initializer_list<Piece> pieces) {
    SizeText sum(pieces);
    sum.is_sum_ = true;
    return sum;
  }
  static constexpr void Release(Node* node) {
    if (--node->uses) return;
    for (std::size_t i = 0; i < node->count; ++i) {
      if (node->pieces[i].node) Release(node->pieces[i].node);
    }
    delete node;
  }
  static constexpr char* Write(const Node& node, char* to) {
    if (!node.count) {
      std::int64_t n = node.number;
      for (char* digit = to + node.size; digit != to; n /= 10) *--digit = char('0' + n % 10);
      return to + node.size;
    }
    for (std::size_t i = 0; i < node.count; ++i) {
      const Piece& piece = node.pieces[i];
      if (piece.node) {
        to = Write(*piece.node, to);
      } else {
        for (const char c : piece.text) *to++ = c;
      }
    }
    return to;
  }
  // Around a sum within a product.
  constexpr const char* Open() const { return is_sum_ ? "(" : ""; }
  constexpr const char* Close() const { return is_sum_ ? ")" : ""; }

  Node* node_;
  std::int64_t number_ = -1;  // -1: not a number alone
  bool is_sum_ = false;
};

constexpr std::int64_t CeilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t Min(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
constexpr std::int64_t Max(std::int64_t a, std::int64_t b) { return a > b ? a : b; }

// The bytes of an array whose elements take `bytes` each, up to the end of its last line.
template <class N>
constexpr N LineBytes(const N& count, std::int64_t bytes) {
  if (bytes % 64 == 0) return count * N(bytes);
  return N(64) * CeilDiv(count * N(bytes), N(64));
}

// `count` elements of T, from byte `begin` of the workspace on.
template <class T, class N>
struct Part {
  N begin, count;
};

// Parts that follow each other, each from a multiple of 64 bytes on. N: SizeText or std::int64_t.
template <class N>
class Workspace {
 public:
  constexpr const N& bytes() const { return bytes_; }

 protected:
  template <class T>
  constexpr Part<T, N> Add(const N& count) {
    const N begin = bytes_;
    bytes_ = bytes_ + LineBytes(count, sizeof(T));
    return {begin, count};
  }

 private:
  N bytes_ = N(std::int64_t{0});
};

// One array.
template <class T, class N>
struct ArrayWorkspace : Workspace<N> {
  Part<T, N> elements;
  constexpr explicit ArrayWorkspace(N count) : elements(this->template Add<T>(count)) {}
};

// A row of scratch for each part that a call's work is cut into.
template <class T, class N>
struct RowsWorkspace : Workspace<N> {
  N row;
  Part<T, N> rows;  // [parts, row]
  constexpr RowsWorkspace(N parts, N row_size)
      : row(row_size), rows(this->template Add<T>(parts * row)) {}
};

// Where the parts of a layout lie in a call: at memory[part].
class Placed {
 public:
  Placed(const Context& ctx, const Workspace<std::int64_t>& layout)
      : memory_(static_cast<char*>(ctx.workspace)) {
    if (std::uint64_t(layout.bytes()) > ctx.workspace_bytes) Refuse(ctx, layout.bytes());
  }
  explicit Placed(char* memory) : memory_(memory) {}  // a part that is a layout itself

  template <class T>
  T* operator[](const Part<T, std::int64_t>& part) const {
    return reinterpret_cast<T*>(memory_ + part.begin);
  }

 private:
  [[noreturn, gnu::cold, gnu::noinline]] static void Refuse(const Context& ctx,
                                                            std::int64_t bytes) {
    char text[160];  // no string: its inline functions would be those of this instruction set
    std::snprintf(text, sizeof(text),
                  "the kernel's workspace has %lld bytes, but its parts take %lld, and both must "
                  "come from one layout.",
                  static_cast<long long>(ctx.workspace_bytes), static_cast<long long>(bytes));
    throw std::logic_error(text);
  }
  char* memory_;
};

// The number that expressions call `threads`.
inline std::int64_t ThreadsOf(const Context& ctx) { return ctx.threads > 1 ? ctx.threads : 1; }

// The text that a function returns, for `.workspace`.
template <auto kSize>
inline constexpr auto kTextOf = [] {
  std::array<char, kSize().size() + 1> text{};
  kSize().Write(text.data());
  return text;
}();
template <auto kSize>
inline constexpr const char* kWorkspace = kTextOf<kSize>.data();

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
