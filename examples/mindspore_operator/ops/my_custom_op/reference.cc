// SPDX-License-Identifier: Apache-2.0
// What my_custom_op should compute, in double: read by tests alone.
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Compute(const Context&, double param1, double param2, const Tensor& input,
             const Tensor& output) {
  for (std::int64_t r = 0; r < input.rows(); ++r) {
    for (std::int64_t i = 0; i < input.row_size(); ++i) {
      output.base<double>()[output.row_offset(r) + i] =
          param1 * Read(input, input.row_offset(r) + i) + param2;
    }
  }
}

void Backward(const Context& context, const Tensor& doutput, double param1, double,
              const Tensor* dinput) {
  if (dinput) Compute(context, param1, 0, doutput, *dinput);
}

}  // namespace

extern constinit const Reference my_custom_op_reference{.op = "my_custom_op",
                                                        .run = Bind<&Compute>()};
extern constinit const Reference my_custom_op_backward_reference{.op = "my_custom_op_backward",
                                                                 .run = Bind<&Backward>()};

}  // namespace anyop::ops
