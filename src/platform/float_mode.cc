// SPDX-License-Identifier: Apache-2.0
#include "platform/float_mode.h"

namespace anyop {
namespace {

constinit thread_local DefaultFloatMode* t_innermost = nullptr;

// Reads first, because writing the mode takes ten times as long.
void Become(std::uint64_t mode) {
  if (ReadFloatMode() != mode) WriteFloatMode(mode);
}

}  // namespace

DefaultFloatMode::DefaultFloatMode(Functions functions)
    : callers_(ReadFloatMode()), outer_(t_innermost) {
  t_innermost = functions == Functions::kHaveTheCallers ? this : nullptr;
  Become(kDefaultFloatMode);
}
DefaultFloatMode::~DefaultFloatMode() {
  t_innermost = outer_;
  Become(callers_);
}

CallersFloatMode::CallersFloatMode() : around_(t_innermost) {
  if (!around_) return;
  t_innermost = nullptr;  // here the caller's mode holds already: another one inside does nothing
  Become(around_->callers_);
}
CallersFloatMode::~CallersFloatMode() {
  if (!around_) return;
  t_innermost = around_;
  around_->callers_ = ReadFloatMode();
  Become(kDefaultFloatMode);
}

}  // namespace anyop
