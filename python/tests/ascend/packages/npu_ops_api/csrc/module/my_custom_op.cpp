// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "ms_extension/api.h"

#include "ascendc/my_custom_op.h"
#include "module/module.h"

class MyCustomOp : public ms::pynative::PyboostRunner {
 public:
  using PyboostRunner::PyboostRunner;
  void LaunchKernel() override {
    uint8_t *inputPtr = static_cast<uint8_t *>(inputs()[0].GetDataPtr());
    uint8_t *outputPtr = static_cast<uint8_t *>(outputs()[0].GetDataPtr());
    MyCustomOpKernelEntry(2, nullptr, stream(), inputPtr, outputPtr, param1_, param2_,
                          static_cast<int32_t>(inputs()[0].numel()));
  }

  // Writes to `output`; other types of integers go through int32.
  static void Eval(int32_t param1, int32_t param2, ms::Tensor input, ms::Tensor output) {
    if (input.shape() != output.shape()) {
      throw std::invalid_argument("my_custom_op: input and output must be of one shape.");
    }
    ms::Tensor x = input, y = output;
    if (x.data_type() != ms::TypeId::kNumberTypeInt32) x = x.cast(ms::TypeId::kNumberTypeInt32);
    if (y.data_type() != ms::TypeId::kNumberTypeInt32) {
      y = ms::Tensor(ms::TypeId::kNumberTypeInt32, output.shape());
    }
    auto runner = std::make_shared<MyCustomOp>("MyCustomOp");
    runner->param1_ = param1;
    runner->param2_ = param2;
    runner->Run({x}, {y});
    if (y.data_type() != output.data_type()) output.AssignTensor(y.cast(output.data_type()));
  }
  static ms::Tensor Make(int32_t param1, int32_t param2, ms::Tensor input) {
    ms::Tensor output(input.data_type(), input.shape());
    Eval(param1, param2, input, output);
    return output;
  }

  int32_t param1_{0};
  int32_t param2_{0};
};

pybind11::object MyCustomOpInto(int32_t param1, int32_t param2, ms::Tensor input,
                                ms::Tensor output) {
  return ms::pynative::PyboostRunner::Call<0>(MyCustomOp::Eval, param1, param2, input, output);
}

NPU_OPS_EXTENSION_MODULE(m) {
  m.def("my_custom_op", &MyCustomOpInto, pybind11::arg("param1"), pybind11::arg("param2"),
        pybind11::arg("input"), pybind11::arg("output"));
  m.def("my_custom_op_new", [](int32_t param1, int32_t param2, ms::Tensor input) {
    return ms::pynative::PyboostRunner::Call<1>(MyCustomOp::Make, param1, param2, input);
  });
}
