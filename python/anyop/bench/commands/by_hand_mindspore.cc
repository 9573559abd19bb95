// SPDX-License-Identifier: Apache-2.0
// What `anyop bench calls` compares MindSpore's calls with: an operator as an engineer writes it by
// hand for `mindspore.ops.CustomOpBuilder`.
#include <ms_extension/api.h>

#include <cstddef>
#include <memory>

namespace {

class Add : public ms::pynative::PyboostRunner {
 public:
  using PyboostRunner::PyboostRunner;

  void LaunchKernel() override {
    const auto* x = static_cast<const float*>(inputs()[0].GetDataPtr());
    const auto* y = static_cast<const float*>(inputs()[1].GetDataPtr());
    auto* z = static_cast<float*>(outputs()[0].GetDataPtr());
    for (std::size_t i = 0, n = inputs()[0].numel(); i < n; ++i) z[i] = x[i] + y[i];
  }

  static ms::Tensor Make(const ms::Tensor& x, const ms::Tensor& y) {
    ms::Tensor z(x.data_type(), x.shape());
    std::make_shared<Add>("AddByHand")->Run({x, y}, {z});
    return z;
  }
};

pybind11::object Call(const ms::Tensor& x, const ms::Tensor& y) {
  return ms::pynative::PyboostRunner::Call<1>(Add::Make, x, y);
}

}  // namespace

PYBIND11_MODULE(MS_EXTENSION_NAME, m) { m.def("add", &Call); }
