// SPDX-License-Identifier: Apache-2.0
// Programs for a chip: packages load them, and launch what is in them. There is no chip, so that
// each function says why it cannot and what can be done instead.
#include "acl.h"

using namespace npu;

namespace {

int Refuse(const char* who, const char* what) {
  return Fail(kUnsupported,
              std::string(who) + ": " + what +
                  " for an NPU's own processor, which the virtual NPU is not. Compile "
                  "the kernel's AscendC source for this machine, with the folder that "
                  "`anyop ascend home` makes.");
}
int RefuseLoad(const char* who) { return Refuse(who, "this is a program"); }
int RefuseLaunch(const char* who) { return Refuse(who, "this launches a program"); }

}  // namespace

ACL int aclrtBinaryLoad(const void*, void**) { return RefuseLoad("aclrtBinaryLoad"); }
ACL int aclrtBinaryLoadFromFile(const char* path, void*, void** binary) {
  *binary = nullptr;
  return RefuseLoad(("aclrtBinaryLoadFromFile(\"" + std::string(path ? path : "") + "\")").c_str());
}
ACL int aclrtBinaryLoadFromData(const void*, std::size_t, const void*, void** binary) {
  *binary = nullptr;
  return RefuseLoad("aclrtBinaryLoadFromData");
}
ACL int aclrtBinaryGetFunction(void*, const char*, void**) {
  return RefuseLoad("aclrtBinaryGetFunction");
}
ACL int aclrtBinaryGetFunctionByEntry(void*, std::uint64_t, void**) {
  return RefuseLoad("aclrtBinaryGetFunctionByEntry");
}
ACL int aclrtGetFunctionAddr(void*, void**, void**) { return RefuseLoad("aclrtGetFunctionAddr"); }
ACL int aclrtBinaryUnLoad(void*) { return RefuseLoad("aclrtBinaryUnLoad"); }

ACL int aclrtLaunchKernel(void*, std::uint32_t, const void*, std::size_t, void*) {
  return RefuseLaunch("aclrtLaunchKernel");
}
ACL int aclrtLaunchKernelV2(void*, std::uint32_t, const void*, std::size_t, void*, void*) {
  return RefuseLaunch("aclrtLaunchKernelV2");
}
ACL int aclrtLaunchKernelWithConfig(void*, std::uint32_t, void*, void*, void*, void*) {
  return RefuseLaunch("aclrtLaunchKernelWithConfig");
}
ACL int aclrtLaunchKernelWithHostArgs(void*, std::uint32_t, void*, void*, void*, std::size_t, void*,
                                      std::size_t) {
  return RefuseLaunch("aclrtLaunchKernelWithHostArgs");
}

ACL int rtDevBinaryRegister(const void*, void**) { return RefuseLoad("rtDevBinaryRegister"); }
ACL int rtFunctionRegister(void*, const void*, const char*, const void*, std::uint32_t) {
  return RefuseLoad("rtFunctionRegister");
}
ACL int rtKernelLaunch(const void*, std::uint32_t, void*, std::uint32_t, void*, void*) {
  return RefuseLaunch("rtKernelLaunch");
}
