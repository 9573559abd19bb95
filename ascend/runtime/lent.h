// SPDX-License-Identifier: Apache-2.0
// Memory that host functions of packages hand to kernels by its address, as their bindings tell it.
#pragma once
#include <mutex>

#include "anyop_ascend/core.h"

namespace anyop_ascend {

// Declares what is lent while a checked launch runs; one thread at a time. A pointer among its
// arguments that is in none of it is of memory whose size nobody told: what lies there is not
// looked at.
class DeclaredLent {
 public:
  explicit DeclaredLent(const HostLaunch* launch);
  ~DeclaredLent();
  DeclaredLent(const DeclaredLent&) = delete;
  DeclaredLent& operator=(const DeclaredLent&) = delete;

 private:
  std::lock_guard<std::mutex> lock_;
  bool has_declared_ = false;
};

}  // namespace anyop_ascend
