// SPDX-License-Identifier: Apache-2.0
// The operator plug-in: MindSpore's own primitives, served by operators of anyop. A row of
// primitives.txt says what a primitive means; the build makes a function of each (by
// tools/list_primitives.py), whose body is the row's text over what this header declares.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>

#include "anyop/runtime.h"
#include "kernel_inputs.h"

namespace anyop::mindspore {

// What MindSpore hands to a function: the primitive's inputs, then its results. All of it by
// position; of an input that is absent the memory is null.
struct Given {
  const char* primitive;
  int count;
  void** data;
  int* ranks;
  std::int64_t** sizes;
  const char** dtypes;
  KernelInputs* inputs;

  Array tensor(int index) const;  // as it is strided; none() where it is absent
  double number(int index) const;
  std::int64_t integer(int index) const;
};

using Body = void (*)(const Given&);
// Runs a row, whose primitive has `count` inputs and results. Throws std::runtime_error with the
// text of what is wrong, beginning with the name of the primitive.
int Serve(const Given& given, int count, Body body);

[[noreturn]] void Refuse(const Given& given, const std::string& why);
// Refuses an input that is given.
void MustBeAbsent(const Given& given, const char* name, const Array& value);

// ---- Views for reading: copies where the strides allow no view. Of results they are views.
Array Contiguous(const Array& x);
Array Shaped(const Array& x, std::initializer_list<std::int64_t> shape);
// [..., a, b] as [..., a*b], where `weight` is [a, b]: its dimensions become one.
Array Rows(const Array& x, const Array& weight);
Array Flat(const Array& x);
Array As(const Array& x, DType dtype);
Array ToF32(const Array& x);
std::int64_t LastOf(const Array& x);
// a / b, and 0 where b is.
std::int64_t Quotient(std::int64_t a, std::int64_t b);
// Number of rows of the last dimension.
std::int64_t RowsOf(const Array& x);

void Copy(const Array& from, const Array& to);
void FillZero(const Array& x);

// ---- Norms.
// rstd = 1 / sqrt(mean(x * x) + epsilon) of each row of x.
void InverseRms(const Array& x, double epsilon, const Array& rstd);
// The epsilon that rstd was made with: of the row whose mean square is the least, where it is
// known best.
double EpsilonOf(const Array& x, const Array& rstd);

// ---- Rotations.
// A table [rows, d] for rope, with a row for each row of x: cos and sin broadcast to x. Each angle
// stands twice in cos, in both halves or (is_interleaved) in neighbours; else it is refused.
Array TableOf(const Given& given, const Array& cos, const Array& sin, const Array& x,
              bool is_interleaved);
// The same with a row for each of n tokens: cos is [rows, d]. by_token: row t is token t's; else
// the positions say which, of tokens or of places in each of the sequences.
Array TokenTable(const Given& given, const Array& cos, const Array& sin, const Array& positions,
                 std::int64_t n_tokens, std::int64_t format);
const char* StyleOf(const Given& given, std::int64_t mode);

// ---- Attention.
// Where the queries of each context begin, [b + 1]: of how many each has, or of all tokens evenly;
// none where each has one.
Array StartsOf(const Given& given, const Array& lengths, const Array& context,
               std::int64_t n_tokens);
// Refuses a mask that is not the causal one: [queries, at least the longest context], 0 where a
// query sees a key.
void MustBeCausal(const Given& given, const Array& mask, const Array& context, const Array& starts,
                  std::int64_t n_tokens);

}  // namespace anyop::mindspore
