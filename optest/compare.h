// SPDX-License-Identifier: Apache-2.0
// Compares what a kernel wrote with the reference, element by element.
#pragma once
#include <optional>
#include <string>

#include "optest/checks.h"

namespace anyop::optest {

// The references of calls like this one, run when a tolerance asks for them.
class LazyTerms : public Terms {
 public:
  explicit LazyTerms(const Call& call, bool has_extremes = false)
      : call_(call), has_extremes_(has_extremes) {}
  double at(std::string_view result, std::int64_t index) const override;
  double moves(std::string_view result, std::int64_t index) const override;
  double row(std::string_view result, std::int64_t index) const override;
  bool has_extremes() const override { return has_extremes_; }
  bool may_overflow(std::string_view result, std::int64_t index) const override;

 private:
  Results Move() const;
  Results LargestOfRows() const;
  double LargestOfFiniteArguments() const;  // says in has_infinite_ whether there are others

  const Call& call_;
  const bool has_extremes_;
  mutable std::optional<Results> absolute_, moves_, rows_;
  mutable std::optional<double> largest_;
  mutable bool has_infinite_ = false;
};

struct Comparison {
  // "" if all is well, else the first element that is wrong, how many are, and the tolerance.
  std::string failure;
  std::int64_t elements = 0;  // looked at
};
// NaN agrees with NaN only; infinities must agree, save where the exact value is within the
// tolerance of where the dtype overflows. A result that the reference lacks is a failure.
Comparison Compare(const OpTest& test, const Call& call, const Results& actual,
                   const Results& exact, const Terms& terms);

// "" or the first element whose bits differ: "y[0, 3] is 1.5 and 1.25".
std::string FindDifference(const Results& a, const Results& b);
// The result with whose name such a text, or a failure, begins.
std::string FirstName(const std::string& text);

}  // namespace anyop::optest
