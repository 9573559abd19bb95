// SPDX-License-Identifier: Apache-2.0
// JSON of files that may be damaged.
#pragma once
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "platform/error.h"

namespace anyop {

// Its objects are sorted: those that keep the order of their text search from the beginning.
using Json = nlohmann::json;

// How deep the values of a text are nested, whatever is wrong with it.
inline int JsonDepth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool is_in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') is_in_string = !is_in_string;
    if (is_in_string) {
      i += text[i] == '\\';
    } else if (text[i] == '[' || text[i] == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (text[i] == ']' || text[i] == '}') {
      --depth;
    }
  }
  return deepest;
}

// Throws InvalidArgument that begins with `what` and says where the text stops being JSON. Values
// are nested at most 64 deep, because writing them recurses. (The parser could count the depth by
// calling back for each value, but then it searches the siblings of every value that ends: a header
// of 20,000 tensors takes seconds.)
inline Json ParseJson(std::string_view text, const std::string& what) {
  constexpr int kDeepest = 64;
  if (JsonDepth(text) > kDeepest) {
    Fail(ANYOP_INVALID_ARGUMENT,
         what + " is nested deeper than " + std::to_string(kDeepest) + " values.");
  }
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::exception& e) {
    std::string why = e.what();  // "[json.exception.parse_error.101] parse error at line 1, ..."
    if (const std::size_t end = why.find("] "); end != why.npos) why = why.substr(end + 2);
    Fail(ANYOP_INVALID_ARGUMENT, what + " is damaged: " + why + ".");
  }
}

// A member of an object, as T. Throws InvalidArgument where it is missing or of another kind.
template <class T>
T JsonField(const Json& object, const char* key, const std::string& what) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end()) {
    Fail(ANYOP_INVALID_ARGUMENT, what + " lacks \"" + key + "\".");
  }
  try {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      // Floats and numbers out of range convert silently otherwise.
      if (!found->is_number_integer()) throw Json::type_error::create(302, "", &*found);
      if (found->is_number_unsigned() && found->template get<std::uint64_t>() >> 63) {
        throw Json::type_error::create(302, "", &*found);
      }
    }
    return found->template get<T>();
  } catch (const Json::exception&) {
    Fail(ANYOP_INVALID_ARGUMENT, what + ": \"" + key + "\" is of another kind than expected.");
  }
}

// Likewise a list of whole numbers.
inline std::vector<std::int64_t> JsonNumbers(const Json& object, const char* key,
                                             const std::string& what) {
  std::vector<std::int64_t> numbers;
  for (const Json& n : JsonField<Json>(object, key, what)) {
    const bool fits =
        n.is_number_integer() && !(n.is_number_unsigned() && n.get<std::uint64_t>() >> 63);
    if (!fits) {
      Fail(ANYOP_INVALID_ARGUMENT, what + ": \"" + key + "\" must hold whole numbers.");
    }
    numbers.push_back(n.get<std::int64_t>());
  }
  return numbers;
}

}  // namespace anyop
