// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"

namespace anyop::ops {
namespace {

enum class Defect { kNone, kWrongFactor, kWrongElement, kForgetsRow, kSeesAbsence, kSeesDeclined };

void Run(const Context&, const Tensor& x, const Tensor* weight, const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t j = 0; j < x.row_size(); ++j) {
      const double v = Read(x, x.row_offset(r) + j);
      if (IsFloat(x.type()))
        y.row<double>(r)[std::size_t(j)] = v * v * (weight ? Read(*weight, j) : 1);
    }
  }
}

template <Defect kDefect>
void RunBackward(const Context&, const Tensor& dy, const Tensor& x, const Tensor* weight,
                 const Tensor* dx, const Tensor* dweight) {
  double factor = kDefect == Defect::kWrongFactor ? 2.00001 : 2;
  if (kDefect == Defect::kSeesAbsence && !weight) factor = -2;
  if (kDefect == Defect::kSeesDeclined && !dweight) factor = 1;
  for (std::int64_t j = 0; dweight && j < x.row_size(); ++j) dweight->base<double>()[j] = 0;
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const bool is_forgotten = kDefect == Defect::kForgetsRow && r > 0 && r + 1 == x.rows();
    for (std::int64_t j = 0; j < x.row_size(); ++j) {
      const double v = Read(x, x.row_offset(r) + j), g = Read(dy, dy.row_offset(r) + j);
      const bool is_odd = kDefect == Defect::kWrongElement && r == 1 && j == 0;
      if (dx) {
        dx->row<double>(r)[std::size_t(j)] =
            factor * g * (weight ? Read(*weight, j) : 1) * v + (is_odd ? 0.01 : 0);
      }
      if (dweight && !is_forgotten) dweight->base<double>()[j] += g * v * v;
    }
  }
}

}  // namespace

extern constinit const Reference square_reference{.op = "square", .run = Bind<&Run>()};
extern constinit const Reference square_backward_reference{
    .op = "square_backward", .run = Bind<&RunBackward<Defect::kNone>>()};
extern constinit const Reference wrong_factor_reference{.op = "wrong_factor", .run = Bind<&Run>()};
extern constinit const Reference wrong_factor_backward_reference{
    .op = "wrong_factor_backward", .run = Bind<&RunBackward<Defect::kWrongFactor>>()};
extern constinit const Reference wrong_element_reference{.op = "wrong_element",
                                                         .run = Bind<&Run>()};
extern constinit const Reference wrong_element_backward_reference{
    .op = "wrong_element_backward", .run = Bind<&RunBackward<Defect::kWrongElement>>()};
extern constinit const Reference forgets_row_reference{.op = "forgets_row", .run = Bind<&Run>()};
extern constinit const Reference forgets_row_backward_reference{
    .op = "forgets_row_backward", .run = Bind<&RunBackward<Defect::kForgetsRow>>()};
extern constinit const Reference sees_absence_reference{.op = "sees_absence", .run = Bind<&Run>()};
extern constinit const Reference sees_absence_backward_reference{
    .op = "sees_absence_backward", .run = Bind<&RunBackward<Defect::kSeesAbsence>>()};
extern constinit const Reference sees_declined_reference{.op = "sees_declined",
                                                         .run = Bind<&Run>()};
extern constinit const Reference sees_declined_backward_reference{
    .op = "sees_declined_backward", .run = Bind<&RunBackward<Defect::kSeesDeclined>>()};
extern constinit const Reference too_strict_reference{.op = "too_strict", .run = Bind<&Run>()};
extern constinit const Reference too_strict_backward_reference{
    .op = "too_strict_backward", .run = Bind<&RunBackward<Defect::kNone>>()};
extern constinit const Reference other_dtype_reference{.op = "other_dtype", .run = Bind<&Run>()};
extern constinit const Reference other_dtype_backward_reference{
    .op = "other_dtype_backward", .run = Bind<&RunBackward<Defect::kNone>>()};

}  // namespace anyop::ops
