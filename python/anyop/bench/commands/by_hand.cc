// SPDX-License-Identifier: Apache-2.0
// What `anyop bench calls` compares torch calls with: an operator as an engineer writes it by hand
// for PyTorch, typed, with its own autograd::Function.
#include <ATen/EmptyTensor.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace {

at::Tensor Add(const at::Tensor& x, const at::Tensor& y) {
  TORCH_CHECK(x.scalar_type() == at::kFloat && y.scalar_type() == at::kFloat, "f32 is needed");
  TORCH_CHECK(x.sizes() == y.sizes(), "the shapes differ");
  TORCH_CHECK(x.is_contiguous() && y.is_contiguous(), "contiguous tensors are needed");
  at::Tensor z = at::detail::empty_cpu(x.sizes(), x.scalar_type());
  const float* a = x.const_data_ptr<float>();
  const float* b = y.const_data_ptr<float>();
  float* c = z.mutable_data_ptr<float>();
  for (int64_t i = 0, n = x.numel(); i < n; ++i) c[i] = a[i] + b[i];
  return z;
}

struct Differentiable : torch::autograd::Function<Differentiable> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x,
                            const at::Tensor& y) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("anyop_opponents::sum", "")
                               .typed<at::Tensor(const at::Tensor&, const at::Tensor&)>();
    return op.call(x, y);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& dz) {
    return {dz[0], dz[0]};
  }
};

at::Tensor AddWithGradient(const at::Tensor& x, const at::Tensor& y) {
  return Differentiable::apply(x, y);
}

}  // namespace

TORCH_LIBRARY(anyop_opponents, m) {
  m.def("sum(Tensor x, Tensor y) -> Tensor");
  m.def("differentiable_sum(Tensor x, Tensor y) -> Tensor");
}
TORCH_LIBRARY_IMPL(anyop_opponents, CPU, m) { m.impl("sum", &Add); }
TORCH_LIBRARY_IMPL(anyop_opponents, Autograd, m) { m.impl("differentiable_sum", &AddWithGradient); }
