// SPDX-License-Identifier: Apache-2.0
// What is wrong with the kernels of an operator, over all calls of a test.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "optest/call.h"
#include "optest/memory.h"

namespace anyop::optest {

// Defects of one kind are one failure of the test, with the call that showed it first.
class Findings {
 public:
  Findings();
  ~Findings();
  Findings(const Findings&) = delete;
  Findings& operator=(const Findings&) = delete;

  // A run of a kernel is wrong. how: "dense memory", or "".
  void Add(const Defect& defect, const OperatorKernel& kernel, const Call& call,
           const std::string& how = "");
  // A kernel is wrong in so many calls that more would tell nothing new.
  bool AreEnoughOf(const OperatorKernel& kernel) const;
  // Fails the test, if there are any. Whether there are.
  bool Report() const;

 private:
  struct Finding {
    std::string kind, text, kernel, call;                      // of the first
    std::map<std::string, std::set<std::uint64_t>> by_kernel;  // the seeds of calls
  };
  std::string TextOf(const Finding& finding) const;

  std::vector<Finding> findings_;
};

}  // namespace anyop::optest
