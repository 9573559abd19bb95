// SPDX-License-Identifier: Apache-2.0
// What .check_data functions share: rules about the data that only check mode looks at.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>
#include <unordered_map>

#include "anyop/op.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// "0.5", "inf"
inline std::string ShowNumber(double value) {
  if (value != value) return "nan";  // without a sign
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

// Refuses an element of x, [n], of which `is_right` is false. must: "finite and not 0, because ..."
template <class F>
void CheckElements(const char* name, const Tensor& x, F&& is_right, const char* must) {
  for (std::int64_t i = 0; i < x.dim(0); ++i) {
    const double value = Read(x, i);
    if (is_right(value)) continue;
    Refuse(std::string(name) + "[" + std::to_string(i) + "] is " + ShowNumber(value) +
           ", but must be " + must + ".");
  }
}

// Places where numbers stand, to find one that stands in two.
class Distinct {
 public:
  // place: "mapping[2, 1]". Refuses a number that was added before.
  void Add(std::int64_t number, const std::string& place, const char* because) {
    const auto [first, is_new] = places_.emplace(number, place);
    if (!is_new) Refuse(place, number, first->second, because);
  }
  // Refuses a number that was added.
  void CheckIsNew(std::int64_t number, const std::string& place, const char* because) const {
    const auto found = places_.find(number);
    if (found != places_.end()) Refuse(place, number, found->second, because);
  }

 private:
  [[noreturn]] static void Refuse(const std::string& place, std::int64_t number,
                                  const std::string& first, const char* because) {
    anyop::Refuse(place + " is " + std::to_string(number) + ", but must differ from " + first +
                  ", because " + because + ".");
  }
  std::unordered_map<std::int64_t, std::string> places_;
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
