// SPDX-License-Identifier: Apache-2.0
// my_custom_op for mindspore.ops.CustomOpBuilder, for comparison: f32 alone, nothing is checked, in
// PyNative alone, and its gradient is zero.
#include <ms_extension/api.h>

#include <cstddef>
#include <memory>

class MyCustomOp : public ms::pynative::PyboostRunner {
 public:
  using PyboostRunner::PyboostRunner;

  void LaunchKernel() override {
    const auto* input = static_cast<const float*>(inputs()[0].GetDataPtr());
    auto* output = static_cast<float*>(outputs()[0].GetDataPtr());
    for (std::size_t i = 0; i < inputs()[0].numel(); ++i) output[i] = param1 * input[i] + param2;
  }

  static ms::Tensor Make(double param1, double param2, const ms::Tensor& input) {
    ms::Tensor output(input.data_type(), input.shape());
    const auto runner = std::make_shared<MyCustomOp>("MyCustomOp");
    runner->param1 = float(param1);
    runner->param2 = float(param2);
    runner->Run({input}, {output});
    return output;
  }

  float param1, param2;
};

pybind11::object Call(double param1, double param2, const ms::Tensor& input) {
  return ms::pynative::PyboostRunner::Call<1>(MyCustomOp::Make, param1, param2, input);
}

PYBIND11_MODULE(MS_EXTENSION_NAME, m) { m.def("my_custom_op", &Call); }
