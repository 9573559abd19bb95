// SPDX-License-Identifier: Apache-2.0
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <dlfcn.h>

#include <string>

#include "guard.h"
#include "kernels.h"
#include "table.h"

namespace virtual_torch {
namespace {

// Raises where it cannot be done; torch then is as it was, unless another backend comes meanwhile.
void Start(const char* path) {
  void* const library = dlopen(path, RTLD_NOW);
  if (!library) Raise(ANYOP_NOT_AVAILABLE, dlerror());
  const auto find =
      reinterpret_cast<anyop_device_library_fn>(dlsym(library, "anyop_device_library"));
  if (!find) Raise(ANYOP_NOT_AVAILABLE, std::string(path) + " is no library of a device.");
  if (!find()->device || !find()->device->submit) {
    Raise(ANYOP_NOT_AVAILABLE, std::string(path) + " brings no device that runs the host's code.");
  }
  const anyop_device& table = *find()->device;
  if (at::isPrivateUse1HooksRegistered()) {
    Raise(ANYOP_NOT_AVAILABLE,
          std::string(table.word) +
              ": torch has one device of this kind (PrivateUse1) in a process, and \"" +
              c10::get_privateuse1_backend() + "\" has taken it.");
  }
  SetTable(&table);
  RegisterGuard();
  RegisterKernels();
}

}  // namespace
}  // namespace virtual_torch

// "", or why not.
extern "C" __attribute__((visibility("default"))) const char* anyop_virtual_torch_start(
    const char* path) {
  static std::string why;
  try {
    virtual_torch::Start(path);
  } catch (const c10::Error& error) {
    why = error.what_without_backtrace();
  } catch (const std::exception& error) {
    why = error.what();
  }
  return why.c_str();
}
