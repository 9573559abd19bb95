// SPDX-License-Identifier: Apache-2.0
// The error that gradients of root-mean-square normalization may have.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "optest/optest.h"

namespace anyop::optest {

// D(d) of dx: every term of s * g - x * s^3 / d * sum_l g[l] * x[l] + dsum made absolute. x_name:
// what was normalized.
inline Tolerance NormGradient(const std::string& x_name) {
  return [x_name](const Call& call) -> Allowed {
    const Array& x = call.array(x_name);
    const std::int64_t d = x.dim(-1);
    const auto read = [&call](std::string_view name, std::int64_t i, double absent = 0) {
      return call.given(name) ? std::fabs(call.array(name).Get(i)) : absent;
    };
    const bool has_dsum = call.op().contract->param("dsum") >= 0;
    std::vector<double> terms(std::size_t(x.size()), 0);
    for (std::int64_t r = 0; r < x.rows(); ++r) {
      const auto g = [&](std::int64_t j) {
        const double offset = call.number("weight_offset");
        const double gain = call.given("weight") ? call.array("weight").Get(j) + offset : 1;
        return read("dy", r * d + j) * std::fabs(gain);
      };
      double squares = 0, products = 0;
      for (std::int64_t j = 0; j < d; ++j) {
        squares += x.Get(r * d + j) * x.Get(r * d + j);
        products += g(j) * std::fabs(x.Get(r * d + j));
      }
      const double s = 1 / std::sqrt(squares / double(d) + call.number("eps"));
      for (std::int64_t j = 0; j < d; ++j) {
        const std::int64_t i = r * d + j;
        terms[std::size_t(i)] = s * g(j) + std::fabs(x.Get(i)) * s * s * s / double(d) * products +
                                (has_dsum ? read("dsum", i) : 0);
      }
    }
    const double k = (4 + 2 * std::sqrt(double(d))) * kU;
    return [terms, k](const Element& e) {
      return 0.51 * e.ulp() + k * terms[std::size_t(e.index)] + 0x1p-126;
    };
  };
}

}  // namespace anyop::optest
