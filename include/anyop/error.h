// SPDX-License-Identifier: Apache-2.0
// The one exception type of anyop.
#pragma once
#include <stdexcept>
#include <string>

#include "anyop/abi.h"

namespace anyop {

// code: one of ANYOP_INVALID_ARGUMENT ... ANYOP_INTERNAL (abi.h).
// what(): "<operator>: <what is wrong>, but <what is expected and why>. <what to do>"
class ANYOP_EXPORT Error : public std::runtime_error {
 public:
  Error(int error_code, const std::string& text) : std::runtime_error(text), code(error_code) {}
  const int code;
};

}  // namespace anyop
