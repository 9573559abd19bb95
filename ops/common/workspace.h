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
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "anyop/op.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// A size as text of the signature language.
class SizeText {
 public:
  // A name, or a function of one name: "d", "rows(x)".
  constexpr SizeText(const char* name) {
    Append(name);
    if (text().find_first_of(" +-*/,") != std::string_view::npos) throw "no name";
  }
  constexpr SizeText(std::int64_t number) : number_(number) {
    for (std::int64_t n = number; n || text_.empty(); n /= 10) {
      text_.insert(text_.begin(), char('0' + n % 10));
    }
  }

  constexpr std::string_view text() const { return {text_.data(), text_.size()}; }

  friend constexpr SizeText operator+(const SizeText& a, const SizeText& b) {
    if (a.number_ == 0) return b;
    if (b.number_ == 0) return a;
    return Join({a.text(), " + ", b.text()}, true);
  }
  friend constexpr SizeText operator-(const SizeText& a, const SizeText& b) {
    return Join({a.text(), " - ", b.Open(), b.text(), b.Close()}, true);
  }
  friend constexpr SizeText operator*(const SizeText& a, const SizeText& b) {
    if (a.number_ == 1) return b;
    if (b.number_ == 1) return a;
    if (a.number_ >= 0 && b.number_ >= 0) return a.number_ * b.number_;
    return Join({a.Open(), a.text(), a.Close(), "*", b.Open(), b.text(), b.Close()});
  }
  friend constexpr SizeText operator/(const SizeText& a, const SizeText& b) {
    return Join({"(", a.Open(), a.text(), a.Close(), "/", b.Open(), b.text(), b.Close(), ")"});
  }
  friend constexpr SizeText CeilDiv(const SizeText& a, const SizeText& b) {
    return Join({"ceil_div(", a.text(), ", ", b.text(), ")"});
  }
  friend constexpr SizeText Min(const SizeText& a, const SizeText& b) {
    return Join({"min(", a.text(), ", ", b.text(), ")"});
  }
  friend constexpr SizeText Max(const SizeText& a, const SizeText& b) {
    return Join({"max(", a.text(), ", ", b.text(), ")"});
  }

 private:
  constexpr SizeText() = default;
  static constexpr SizeText Join(std::initializer_list<std::string_view> parts,
                                 bool is_sum = false) {
    SizeText joined;
    std::size_t size = 0;
    for (const std::string_view part : parts) size += part.size();
    joined.text_.reserve(size);
    for (const std::string_view part : parts) joined.Append(part);
    joined.is_sum_ = is_sum;
    return joined;
  }
  constexpr void Append(std::string_view part) {
    text_.insert(text_.end(), part.begin(), part.end());
  }
  // Around a sum within a product.
  constexpr std::string_view Open() const { return is_sum_ ? "(" : ""; }
  constexpr std::string_view Close() const { return is_sum_ ? ")" : ""; }

  std::vector<char> text_;
  std::int64_t number_ = -1;  // -1: not a number alone
  bool is_sum_ = false;
};

constexpr std::int64_t CeilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t Min(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
constexpr std::int64_t Max(std::int64_t a, std::int64_t b) { return a > b ? a : b; }

// The size of an array whose elements take `bytes` each, and of what fills its last line.
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

// The text that a function returns, for `.workspace`. It is made once, as compilers take long for
// it, in an array that is then cut.
struct LongText {
  std::size_t count = 0;
  char text[4096] = {};
};
template <auto kSize>
inline constexpr auto kTextOf = [] {
  constexpr LongText kAll = [] {
    LongText all;
    const SizeText size = kSize();
    for (const char c : size.text()) all.text[all.count++] = c;
    return all;
  }();
  std::array<char, kAll.count + 1> text{};
  std::copy_n(kAll.text, kAll.count, text.begin());
  return text;
}();
template <auto kSize>
inline constexpr const char* kWorkspace = kTextOf<kSize>.data();

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
