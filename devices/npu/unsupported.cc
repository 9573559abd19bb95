// SPDX-License-Identifier: Apache-2.0
// What a function that torch_npu links and the virtual NPU does not have does when it is called
// (unsupported.txt; the build makes a function of each line).
#include <cxxabi.h>

#include <cstdlib>
#include <stdexcept>

#include "acl.h"

// Of C: an error of the runtime, whose text torch_npu raises.
extern "C" long anyop_npu_unsupported(const char* name) {
  return npu::Fail(npu::kUnsupported, std::string(name) + " is not supported.");
}

// Operators of CANN's first kind (aclop), of which there are none here. torch_npu describes the
// arguments of one on the thread of the call, but runs it on another, whose errors come late.
extern "C" __attribute__((visibility("default"))) void* aclCreateTensorDesc() {
  throw std::runtime_error("virtual NPU: " + npu::CurrentOperator() +
                           " is made of an operator of CANN's first kind (aclop), which is not "
                           "supported.");
}

// Of C++, where there may be no code to return.
extern "C" void anyop_npu_unsupported_class(const char* name) {
  int status = 0;
  char* const readable = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  const std::string text = readable ? readable : name;
  std::free(readable);
  throw std::runtime_error("virtual NPU: " + text + " is not supported.");
}

// torch_npu warns of what is kUnsupported and goes on, as if the capture had begun.
extern "C" __attribute__((visibility("default"))) int aclmdlRICaptureBegin(void*, int) {
  return npu::Fail(
      npu::kInvalid,
      "aclmdlRICaptureBegin: the virtual NPU captures no graphs. Try torch.compile, or "
      "the program without torch.npu.graph.");
}
