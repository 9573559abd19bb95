// SPDX-License-Identifier: Apache-2.0
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include <string>

#include "guard.h"
#include "kernels.h"
#include "library.h"
#include "table.h"

namespace virtual_torch {
namespace {

// Raises where it cannot be done; torch then is as it was, unless another backend comes meanwhile.
void Start(const char* path) {
  const anyop_device& table = OpenLibrary(path);
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
  return virtual_torch::ErrorOf(&virtual_torch::Start, path);
}
