// SPDX-License-Identifier: Apache-2.0
// Fresh tensors of PyTorch for the results of a call.
#include <exception>
#include <string>

#include "torch_view.h"

namespace anyop::python {
namespace {

TorchTensor MakeTensor(TorchSizes sizes, TorchScalarType type) {
  try {
    return g_torch_functions.empty(sizes, type, false, {});
  } catch (const std::exception& e) {  // c10::Error: below the first line is a stack trace
    const std::string text = e.what();
    Fail(ANYOP_OUT_OF_MEMORY, text.substr(0, text.find('\n')));
  }
}

}  // namespace

Ref TorchCall::Allocate(DType dtype, int rank, const std::int64_t* shape, View& view) {
  const int number = g_torch.numbers[int(dtype)];
  if (number < 0) {
    Fail(ANYOP_NOT_AVAILABLE,
         "the installed torch has no dtype for " + std::string(Name(dtype)) + ".");
  }
  TorchTensor made = MakeTensor({shape, std::size_t(rank)}, TorchScalarType(number));
  Ref object = Checked(g_torch_functions.wrap(static_cast<TorchTensor&&>(made)));
  // Fresh, so that it is dense and begins where its storage does.
  FillTensor(&view.tensor, g_torch_layout.StorageData(TorchImpl(object.get())), kHostDevice,
             ToDL(dtype), rank, shape);
  return object;
}

}  // namespace anyop::python
