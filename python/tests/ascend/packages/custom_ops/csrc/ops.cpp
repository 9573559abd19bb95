// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

#include "acl/acl.h"
#include "aclrtlaunch_scale_custom.h"
#include "op_plugin/include/npu_cpp_extension.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"
#include "torch_npu/csrc/framework/OpCommand.h"

void shift_custom_do(uint32_t blocks, void *stream, uint8_t *x, uint8_t *y, uint32_t size,
                     float by);

namespace custom_ops {

constexpr uint32_t kBlocks = 4;

uint8_t *Address(const at::Tensor &tensor) { return static_cast<uint8_t *>(tensor.data_ptr()); }

void Check(const at::Tensor &tensor) {
  TORCH_CHECK(tensor.scalar_type() == at::kFloat, "custom_ops: tensors must be float");
}

// A function of two phases in libcust_opapi.so.
at::Tensor add_custom_npu(const at::Tensor &self, const at::Tensor &other, double alpha) {
  Check(self);
  at::Tensor out = at::empty_like(self, at::MemoryFormat::Contiguous);
  const at::Tensor x = self.contiguous(), y = other.contiguous();
  EXEC_NPU_CMD_EXT(aclnnAddCustom, x, y, alpha, out);
  return out;
}
at::Tensor add_custom_meta(const at::Tensor &self, const at::Tensor &other, double alpha) {
  Check(self);
  return at::empty_like(self, at::MemoryFormat::Contiguous);
}

// A launch by name, as a handler in torch_npu's queue.
at::Tensor scale_npu(const at::Tensor &self, double factor) {
  Check(self);
  const at::Tensor x = self.contiguous();
  at::Tensor y = at::empty_like(x);
  auto stream = c10_npu::getCurrentNPUStream().stream(false);
  auto handler = [x, y, factor, stream]() -> int {
    return ACLRT_LAUNCH_KERNEL(scale_custom)(kBlocks, stream, Address(x), Address(y),
                                             uint32_t(x.numel()), float(factor));
  };
  at_npu::native::OpCommand command;
  command.Name("ScaleCustom").SetCustomHandler(handler).Run();
  return y;
}
at::Tensor scale_meta(const at::Tensor &self, double) {
  Check(self);
  return at::empty_like(self, at::MemoryFormat::Contiguous);
}

// A launch in the place of the call. size: how many elements the kernel is told; -1: all.
at::Tensor shift_npu(const at::Tensor &self, double by, int64_t size) {
  Check(self);
  const at::Tensor x = self.contiguous();
  at::Tensor y = at::empty_like(x);
  shift_custom_do(kBlocks, c10_npu::getCurrentNPUStream().stream(), Address(x), Address(y),
                  uint32_t(size < 0 ? x.numel() : size), float(by));
  return y;
}
at::Tensor shift_meta(const at::Tensor &self, double, int64_t) {
  Check(self);
  return at::empty_like(self, at::MemoryFormat::Contiguous);
}

class Add : public torch::autograd::Function<Add> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext *ctx, at::Tensor self,
                            at::Tensor other, double alpha) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->saved_data["alpha"] = alpha;
    static auto op = c10::Dispatcher::singleton()
                         .findSchemaOrThrow("custom_ops::add_custom", "")
                         .typed<at::Tensor(const at::Tensor &, const at::Tensor &, double)>();
    return op.call(self, other, alpha);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *ctx,
                                                 torch::autograd::variable_list grads) {
    static auto scale = c10::Dispatcher::singleton()
                            .findSchemaOrThrow("custom_ops::scale", "")
                            .typed<at::Tensor(const at::Tensor &, double)>();
    return {grads[0], scale.call(grads[0], ctx->saved_data["alpha"].toDouble()), at::Tensor()};
  }
};
at::Tensor add_custom_autograd(const at::Tensor &self, const at::Tensor &other, double alpha) {
  return Add::apply(self, other, alpha);
}

// Loads a program for a chip, as packages do that bring compiled kernels.
void load_binary(const std::string &path) {
  aclrtBinHandle binary = nullptr;
  const aclError code = aclrtBinaryLoadFromFile(path.c_str(), nullptr, &binary);
  TORCH_CHECK(code == ACL_SUCCESS, "custom_ops: ", aclGetRecentErrMsg());
}

}  // namespace custom_ops

TORCH_LIBRARY(custom_ops, m) {
  m.def("add_custom(Tensor self, Tensor other, *, float alpha=1.0) -> Tensor");
  m.def("scale(Tensor self, float factor) -> Tensor");
  m.def("shift(Tensor self, float by, int size=-1) -> Tensor");
}
TORCH_LIBRARY_IMPL(custom_ops, PrivateUse1, m) {
  m.impl("add_custom", &custom_ops::add_custom_npu);
  m.impl("scale", &custom_ops::scale_npu);
  m.impl("shift", &custom_ops::shift_npu);
}
TORCH_LIBRARY_IMPL(custom_ops, Meta, m) {
  m.impl("add_custom", &custom_ops::add_custom_meta);
  m.impl("scale", &custom_ops::scale_meta);
  m.impl("shift", &custom_ops::shift_meta);
}
TORCH_LIBRARY_IMPL(custom_ops, AutogradPrivateUse1, m) {
  m.impl("add_custom", &custom_ops::add_custom_autograd);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("load_binary", &custom_ops::load_binary); }
