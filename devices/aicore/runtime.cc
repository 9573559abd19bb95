// SPDX-License-Identifier: Apache-2.0
#include "devices/aicore/runtime.h"

#include <dlfcn.h>

#include <cstring>

#include "anyop/abi.h"

namespace aicore {
namespace {

constexpr const char* kLibrary = "libascendcl.so";

class Loader {
 public:
  Loader() {
    library_ = dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);  // kernels' libraries need its names
    if (!library_) {
      why_ = std::string(kLibrary) + " cannot be loaded: " + dlerror() +
             ". Try sourcing set_env.sh of the vendor's toolkit before the program starts.";
      return;
    }
#define FIND(name) Find(#name, &runtime_.name)
    FIND(aclInit), FIND(aclGetRecentErrMsg), FIND(aclrtGetDeviceCount), FIND(aclrtSetDevice);
    FIND(aclrtGetSocName), FIND(aclrtGetDeviceInfo), FIND(aclrtGetMemInfo);
    FIND(aclrtMalloc), FIND(aclrtFree), FIND(aclrtMemcpyAsync);
    FIND(aclrtCreateStream), FIND(aclrtDestroyStream), FIND(aclrtSynchronizeStream);
    FIND(aclrtSynchronizeDevice), FIND(aclrtCreateEvent), FIND(aclrtDestroyEvent);
    FIND(aclrtRecordEvent), FIND(aclrtStreamWaitEvent), FIND(aclrtQueryEventStatus);
    FIND(aclrtSynchronizeEvent), FIND(aclrtEventElapsedTime);
#undef FIND
    if (!why_.empty()) return;
    const Code code = runtime_.aclInit(nullptr);
    if (code != kOk && code != kRepeatedStart) {
      why_ = "aclInit gives " + std::to_string(code) + ".";
    }
  }
  const Runtime& Get() const {
    if (!why_.empty()) throw Failure{ANYOP_NOT_AVAILABLE, why_};
    return runtime_;
  }

 private:
  template <class F>
  void Find(const char* name, F* to) {
    void* const found = dlsym(library_, name);
    std::memcpy(to, &found, sizeof found);
    if (found || !why_.empty()) return;
    why_ = std::string(kLibrary) + " has no function " + name +
           ", so it is older or newer than what anyop knows.";
  }

  void* library_ = nullptr;
  Runtime runtime_{};
  std::string why_;
};

}  // namespace

const Runtime& TheRuntime() {
  static const Loader loader;
  return loader.Get();
}

}  // namespace aicore
