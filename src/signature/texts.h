// SPDX-License-Identifier: Apache-2.0
// What hosts say of calls that they refuse themselves: once for those in C++ and, as _anyop.texts,
// for those in Python. Words in braces are filled in.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace anyop {

struct Text {
  std::string_view name, text;
};

namespace texts {

inline constexpr Text kNoDType{
    "no_dtype", "{op}: {name} is {type}, but anyop has no such dtype. Try a cast to f32 or i64."};
inline constexpr Text kManyDimensions{
    "many_dimensions", "{op}: {name} has {rank} dimensions, but must have at most 8."};
inline constexpr Text kMaskLength{
    "mask_length", "{op}: output_mask has {given} elements, but there are {results} results."};
// asks: what an argument does whose gradient is needed. stop, around: what ends that, for one
// argument and for a call.
inline constexpr Text kNoGradientFor{
    "no_gradient_for", "{op}: {name} {asks}, but {op} has no gradient for it. Try {stop}."};
inline constexpr Text kFewerWords{
    "fewer_words",
    "{op}: {name} is '{word}', but must be {words} where a gradient is needed, because {gradient} "
    "takes no other. Try {around}."};
inline constexpr Text kNoGradient{"no_gradient",
                                  "{op}: it has no gradient, but one was asked for. Try {around}."};

inline constexpr Text kAll[] = {kNoDType,       kManyDimensions, kMaskLength,
                                kNoGradientFor, kFewerWords,     kNoGradient};

}  // namespace texts

using FilledWord = std::pair<std::string_view, std::string>;

inline std::string Filled(const Text& text, std::initializer_list<FilledWord> words) {
  std::string filled;
  for (std::string_view rest = text.text; !rest.empty();) {
    const std::size_t open = rest.find('{');
    filled += rest.substr(0, open);
    if (open == rest.npos) break;
    const std::size_t close = rest.find('}', open);
    const std::string_view name = rest.substr(open + 1, close - open - 1);
    for (const auto& [known, word] : words) {
      if (known == name) filled += word;
    }
    rest.remove_prefix(close + 1);
  }
  return filled;
}

}  // namespace anyop
