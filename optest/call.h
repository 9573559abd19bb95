// SPDX-License-Identifier: Apache-2.0
// One call of an operator: its arguments by name, generated or set by hand.
#pragma once
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "optest/array.h"
#include "runtime/run/call.h"

namespace anyop::optest {

// What an argument is. monostate: absent.
using Argument = std::variant<std::monostate, Array, std::vector<Array>, std::int64_t, double, bool,
                              std::string, DType, std::vector<std::int64_t>, std::vector<double>>;

// "3", "0.5", "'neox'", "[1, 1]"
std::string ShowScalar(const Argument& argument);

// Results, and `mut` arguments as the call left them, by name.
using Results = std::map<std::string, Array, std::less<>>;

struct Arrangement;
struct Defect;

class Call {
 public:
  // Every parameter has its default, or is absent. Throws anyop::Error for an unknown operator.
  explicit Call(std::string_view op, std::uint64_t seed = 1);

  // Sets a parameter. Whole numbers given for a float parameter become floats. An unknown name
  // throws; a value of the wrong kind is passed on, for the runtime to refuse.
  Call& Set(std::string_view name, Argument value);
  template <class N>
  requires std::is_arithmetic_v<N> Call& Set(std::string_view name, N value) {
    if constexpr (std::is_same_v<N, bool>) return Set(name, Argument(value));
    if constexpr (std::is_floating_point_v<N>) return Set(name, Argument(double(value)));
    return Set(name, Argument(std::int64_t(value)));
  }
  Call& Set(std::string_view name, const char* word) {
    return Set(name, Argument(std::string(word)));
  }
  Call& Remove(std::string_view name) { return Set(name, Argument()); }

  // What is set. Asking for an absent argument, or by another type, throws std::runtime_error.
  bool given(std::string_view name) const;
  Array& array(std::string_view name);
  const Array& array(std::string_view name) const;
  std::vector<Array>& arrays(std::string_view name);
  std::int64_t integer(std::string_view name) const;  // int and bool
  double number(std::string_view name) const;         // int, bool and float
  std::string_view word(std::string_view name) const;
  const Argument& argument(std::string_view name) const;

  // The value of an expression of the signature language over this call: size("hq / hkv"). Throws
  // std::runtime_error if it is unknown.
  double value(std::string_view expression) const;
  std::int64_t size(std::string_view expression) const { return std::int64_t(value(expression)); }
  // For .prepare: the same sequence for the same seed.
  std::mt19937_64& random() { return random_; }
  // A whole number in [low, high], from random().
  std::int64_t Draw(std::int64_t low, std::int64_t high);

  // Runs through the runtime, results dense and fresh. kernel: a name or prefix, as in a policy;
  // "" leaves the choice to the runtime. `mut` arguments are changed in this call too. Throws
  // anyop::Error if the call is refused.
  Results Run(std::string_view kernel = "");
  // The same in memory that lies as `arrangement` says.
  Results Run(const Arrangement& arrangement);
  // The same; what it did to memory is no failure of the test but the caller's to tell.
  Results Run(const Arrangement& arrangement, Defect* defect);
  // Runs every kernel that takes the call, from the same arguments; the results by kernel name.
  std::map<std::string, Results> RunEveryKernel();
  // What the reference in double says: float results and `mut` arguments as f64.
  Results Exact() const;
  // The text with which the runtime refuses the call; "" (and a test failure) if it does not. That
  // nothing was written is checked: no argument, result or byte beside them. While a `Checking`
  // lives, .check_data is asked too.
  std::string Refusal() const;

  // "x: bf16[2, 5], weight: absent, eps: 1e-06"
  std::string Text() const;
  std::uint64_t seed() const { return seed_; }
  const Operator& op() const { return *op_; }
  const std::vector<Argument>& arguments() const { return arguments_; }
  void set_arguments(std::vector<Argument> arguments) { arguments_ = std::move(arguments); }

 private:
  std::size_t Index(std::string_view name) const;

  Operator* op_;
  std::uint64_t seed_;
  std::mt19937_64 random_;
  std::vector<Argument> arguments_;
};

}  // namespace anyop::optest
