// SPDX-License-Identifier: Apache-2.0
// my_custom_op: a product and a sum with two numbers.
//
//   output[i] = param1 * input[i] + param2
//
// Numerics  f32 for every T; one rounding, on the store to output.
// Source    none; the example of docs/mindspore.md.

#include "anyop/op.h"

namespace anyop::ops {
namespace {

template <class T>
void RunAs(const Context& ctx, float param1, float param2, const Tensor& input,
           const Tensor& output) {
  ctx.ForRows(input, [&](std::int64_t r) {
    const auto x = input.row<const T>(r);
    for (std::size_t i = 0; i < x.size(); ++i) {
      output.row<T>(r)[i] = T(param1 * float(x[i]) + param2);
    }
  });
}

void Run(const Context& ctx, float param1, float param2, const Tensor& input,
         const Tensor& output) {
  switch (input.type()) {
    case DType::kF32:
      return RunAs<float>(ctx, param1, param2, input, output);
    case DType::kF16:
      return RunAs<F16>(ctx, param1, param2, input, output);
    default:
      return RunAs<BF16>(ctx, param1, param2, input, output);
  }
}

// dinput[i] = param1 * doutput[i]
void RunBackward(const Context& ctx, const Tensor& doutput, float param1, float,
                 const Tensor* dinput) {
  if (dinput) Run(ctx, param1, 0, doutput, *dinput);
}

}  // namespace

ANYOP_KERNEL(my_custom_op){.run = Bind<&Run>()};
ANYOP_KERNEL(my_custom_op_backward){.run = Bind<&RunBackward>()};

extern constinit const Op my_custom_op{
    .signature =
        "my_custom_op(param1: float, param2: float, input: T[...]) -> (output: T[...] over input) "
        "where T in f32 | f16 | bf16",
    .gradient = "my_custom_op_backward",
    .flops = "2 * size(output)",
};

extern constinit const Op my_custom_op_backward{
    .signature =
        "my_custom_op_backward(doutput: T[...], param1: float, param2: float) "
        "-> (dinput: T[...]?) where T in f32 | f16 | bf16",
    .flops = "size(doutput)",
};

}  // namespace anyop::ops
