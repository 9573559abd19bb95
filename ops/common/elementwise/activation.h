// SPDX-License-Identifier: Apache-2.0
// The activations that a linear layer can apply to its f32 sums before they are rounded.
#pragma once
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "anyop/simd.h"

namespace anyop::ops {

// The words of a signature, in the order of Activation: the only list of them.
#define ANYOP_ACTIVATIONS "'none' | 'relu' | 'relu2' | 'silu' | 'gelu' | 'gelu_tanh' | 'sigmoid'"
enum class Activation { kNone, kRelu, kRelu2, kSilu, kGelu, kGeluTanh, kSigmoid };
inline constexpr int kActivations = 7;

inline namespace ANYOP_ISA {

// "" beyond the last.
constexpr std::string_view ActivationWord(int i) {
  const std::string_view words = ANYOP_ACTIVATIONS;
  std::size_t begin = 0;
  while (true) {
    begin = words.find('\'', begin);
    if (begin == words.npos) return "";
    const std::size_t end = words.find('\'', begin + 1);
    if (i-- == 0) return words.substr(begin + 1, end - begin - 1);
    begin = end + 1;
  }
}
static_assert(ActivationWord(kActivations - 1) != "" && ActivationWord(kActivations) == "");
static_assert(ActivationWord(int(Activation::kRelu2)) == "relu2" &&
              ActivationWord(int(Activation::kGeluTanh)) == "gelu_tanh" &&
              ActivationWord(int(Activation::kSigmoid)) == "sigmoid");

// Calls f with each activation as a constant until it returns true.
template <class F, int... kI>
[[gnu::always_inline]] constexpr bool AnyActivation(F&& f, std::integer_sequence<int, kI...>) {
  return (f(std::integral_constant<Activation, Activation(kI)>{}) || ...);
}
template <class F>
[[gnu::always_inline]] constexpr bool AnyActivation(F&& f) {
  return AnyActivation(f, std::make_integer_sequence<int, kActivations>{});
}

[[gnu::always_inline]] inline Activation ParseActivation(std::string_view word) {
  Activation found = Activation::kNone;
  AnyActivation([&](auto activation) [[gnu::always_inline]] {
    constexpr std::string_view kWord = ActivationWord(int(activation.value));
    if (word != kWord) return false;
    found = activation.value;
    return true;
  });
  return found;
}

// 1 + erf(x / sqrt(2)) = erfc(t), t = |x| / sqrt(2), for negative x, and 2 - erfc(t) otherwise.
// erfc(t) = exp(-t R(t)); R was fitted to t <= 5 (absolute error of erfc 0.6 * 2^-24) and grows
// beyond, where erfc is below 2e-12.
[[gnu::always_inline]] inline F32 OnePlusErf(F32 x) {
  constexpr float kR[] = {1.0194533e-06f, -1.9300249e-05f, 1.5745929e-04f,  -7.1440072e-04f,
                          1.7589258e-03f, -2.1577567e-04f, -1.9137913e-02f, 1.0277732e-01f,
                          6.3661897e-01f, 1.1283792e+00f};
  const F32 t = Abs(x) * Set(0.70710678f);
  F32 r = Set(kR[0]);
#pragma GCC unroll 9
  for (int i = 1; i < 10; ++i) r = Fma(r, t, Set(kR[i]));
  const F32 erfc = Exp(Zero() - t * r);
  return Select(x < Zero(), erfc, Set(2.0f) - erfc);
}

// Below -100 gelu is -0 in f32. -inf becomes finite, so that no inf * 0 arises; NaN stays.
[[gnu::always_inline]] inline F32 AtLeastMinus100(F32 x) { return Max(Set(-100.0f), x); }

template <Activation kActivation>
[[gnu::always_inline]] inline F32 Activate(F32 x) {
  if constexpr (kActivation == Activation::kRelu) {
    return Max(Zero(), x);
  } else if constexpr (kActivation == Activation::kRelu2) {
    const F32 positive = Max(Zero(), x);
    return positive * positive;
  } else if constexpr (kActivation == Activation::kSilu) {
    return x * Sigmoid(x);
  } else if constexpr (kActivation == Activation::kGelu) {
    x = AtLeastMinus100(x);
    return Set(0.5f) * x * OnePlusErf(x);
  } else if constexpr (kActivation == Activation::kGeluTanh) {
    // 0.5 (1 + tanh(z)) = sigmoid(2 z)
    x = AtLeastMinus100(x);
    const F32 z = Set(0.79788456f) * Fma(Set(0.044715f) * x * x, x, x);
    return x * Sigmoid(z + z);
  } else if constexpr (kActivation == Activation::kSigmoid) {
    return Sigmoid(x);
  } else {
    return x;
  }
}

// Calls f with the activation as a constant.
template <class F>
[[gnu::always_inline]] inline void VisitActivation(Activation activation, F&& f) {
  AnyActivation([&](auto each) [[gnu::always_inline]] {
    if (activation != each.value) return false;
    f(each);
    return true;
  });
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
