// SPDX-License-Identifier: Apache-2.0
#include "ms_extension.h"

#include "ascendc/my_custom_op.h"

using BaseTensorPtr = mindspore::tensor::BaseTensorPtr;
using PyBoostUtils = mindspore::kernel::pyboost::PyBoostUtils;

uint8_t *GetDataPtr(const BaseTensorPtr &t) {
  return static_cast<uint8_t *>(t->device_address()->GetMutablePtr()) +
         t->data().itemsize() * t->storage_offset();
}

void MyCustomOpPythonInterface(int32_t param1, int32_t param2, BaseTensorPtr input,
                               BaseTensorPtr output) {
  if (input->data_type() != mindspore::TypeId::kNumberTypeInt32 ||
      output->data_type() != input->data_type() || output->shape() != input->shape()) {
    throw std::invalid_argument("my_custom_op: input and output must be int32, of one shape.");
  }
  auto stream_id = PyBoostUtils::cur_stream_id();
  auto device_context = mindspore::runtime::OpRunner::GetDeviceContext("Ascend");
  PyBoostUtils::PrepareOpInputs(device_context, stream_id, input, output);
  PyBoostUtils::DispatchRun(std::make_shared<mindspore::runtime::PyBoostDeviceTask>([=]() {
    PyBoostUtils::MallocOpInputs(device_context, input, output);
    uint8_t *inputPtr = GetDataPtr(input);
    uint8_t *outputPtr = GetDataPtr(output);
    int32_t size = static_cast<int32_t>(input->DataSize());
    auto aclStream = device_context->device_res_manager_->GetStream(stream_id);
    mindspore::runtime::OpExecutor::DispatchLaunchTask([=]() {
      MyCustomOpKernelEntry(2, nullptr, aclStream, inputPtr, outputPtr, param1, param2, size);
    });
  }));
}

MS_EXTENSION_MODULE(npu_ops) {
  m.def("my_custom_op", &MyCustomOpPythonInterface, "My custom operator",
        pybind11::arg("param1"), pybind11::arg("param2"), pybind11::arg("input"),
        pybind11::arg("output"));
}
