// SPDX-License-Identifier: Apache-2.0
// Tables of cosines and sines as MindSpore's primitives take them, each angle twice, as rope does.
#include <cstring>
#include <vector>

#include "plugin.h"

namespace anyop::mindspore {
namespace {

using Indices = std::vector<std::int64_t>;

// Row `rows[i]` of cos and sin, whose rows are contiguous, as row i of the table.
Array Join(const Given& given, const Array& cos, const Array& sin, const Indices& rows,
           bool is_interleaved) {
  const std::int64_t d = LastOf(cos), half = d / 2;
  if (cos.dtype() != sin.dtype() || d % 2 || LastOf(sin) != d) {
    Refuse(given, "cos and sin differ, or have rows of " + std::to_string(d) +
                      " numbers, but must have the same dtype and rows of an even size.");
  }
  const std::size_t item = std::size_t(Bytes(cos.dtype()));
  const std::int64_t first_step = is_interleaved ? 2 : 1, twin = is_interleaved ? 1 : half;
  Array table = Array::Empty({std::int64_t(rows.size()), d}, cos.dtype());
  char* to = table.data<char>();
  for (std::int64_t row : rows) {
    for (const Array* angles : {&cos, &sin}) {
      const char* from = angles->data<char>() + std::size_t(row * d) * item;
      for (std::int64_t i = 0; i < half; ++i, to += item) {
        const char* one = from + std::size_t(i * first_step) * item;
        if (std::memcmp(one, one + std::size_t(twin) * item, item)) {
          Refuse(given, std::string(angles == &cos ? "cos" : "sin") + "[" + std::to_string(row) +
                            "] has two values for angle " + std::to_string(i) +
                            ", but rope rotates pairs by one. Try a table whose " +
                            (is_interleaved ? "neighbours" : "halves") + " are equal.");
        }
        std::memcpy(to, one, item);
      }
    }
  }
  return table;
}

}  // namespace

Array TableOf(const Given& given, const Array& cos, const Array& sin, const Array& x,
              bool is_interleaved) {
  const int rank = x.rank();
  bool fits = cos.rank() == rank && sin.rank() == rank && cos.dim(-1) == x.dim(-1);
  for (int i = 0; fits && i < rank; ++i) {
    fits = cos.dim(i) == sin.dim(i) && (cos.dim(i) == x.dim(i) || cos.dim(i) == 1);
  }
  if (!fits) Refuse(given, "cos and sin do not broadcast to x, but every row of x needs angles.");
  Indices rows(std::size_t(RowsOf(x)));
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::int64_t rest = std::int64_t(r), step = 1;
    for (int i = rank - 2; i >= 0; rest /= x.dim(i), step *= cos.dim(i), --i) {
      if (cos.dim(i) != 1) rows[r] += rest % x.dim(i) * step;
    }
  }
  return Join(given, Contiguous(cos), Contiguous(sin), rows, is_interleaved);
}

Array TokenTable(const Given& given, const Array& cos, const Array& sin, const Array& positions,
                 std::int64_t n_tokens, std::int64_t format) {
  if (format < 0 || format > 3) {
    Refuse(given, "cos_format is " + std::to_string(format) + ", but must be 0, 1, 2 or 3.");
  }
  const std::int64_t n_rows = RowsOf(cos);
  const Array wide = As(Flat(positions), DType::kI64);
  const std::int64_t n = wide.dim(0);
  const std::int64_t* at = wide.data<std::int64_t>();
  Indices rows;
  if (format >= 2 && n_rows == n_tokens) {
    for (std::int64_t t = 0; t < n_tokens; ++t) rows.push_back(t);
  } else if (format >= 2) {  // the lengths of sequences, each of which begins with the table
    for (std::int64_t s = 0; s < n; ++s) {
      for (std::int64_t t = 0; t < at[s] && std::int64_t(rows.size()) < n_tokens; ++t) {
        rows.push_back(t);
      }
    }
  } else {
    for (std::int64_t t = 0; n && t < n_tokens; ++t) rows.push_back(at[t % n]);
  }
  if (std::int64_t(rows.size()) != n_tokens || (format < 2 && n && n_tokens % n)) {
    Refuse(given, "cos has " + std::to_string(n_rows) + " rows and position_ids " +
                      std::to_string(n) + " numbers, but neither tells the angles of " +
                      std::to_string(n_tokens) + " tokens.");
  }
  for (std::int64_t row : rows) {
    if (row >= 0 && row < n_rows) continue;
    Refuse(given, "a position is " + std::to_string(row) + ", but must be below " +
                      std::to_string(n_rows) + ", the rows of cos.");
  }
  return Join(given, Contiguous(cos), Contiguous(sin), rows, format % 2);
}

}  // namespace anyop::mindspore
