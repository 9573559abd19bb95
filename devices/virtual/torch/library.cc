// SPDX-License-Identifier: Apache-2.0
#include "library.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <string>

#include "table.h"

namespace virtual_torch {

const anyop_device& OpenLibrary(const char* path) {
  void* const library = dlopen(path, RTLD_NOW);
  if (!library) Raise(ANYOP_NOT_AVAILABLE, dlerror());
  const auto find =
      reinterpret_cast<anyop_device_library_fn>(dlsym(library, "anyop_device_library"));
  if (!find) Raise(ANYOP_NOT_AVAILABLE, std::string(path) + " is no library of a device.");
  if (!find()->device || !find()->device->submit) {
    Raise(ANYOP_NOT_AVAILABLE, std::string(path) + " brings no device that runs the host's code.");
  }
  return *find()->device;
}

const char* ErrorOf(void (*start)(const char* path), const char* path) {
  static std::string why;
  why.clear();
  try {
    start(path);
  } catch (const c10::Error& error) {
    why = error.what_without_backtrace();
  } catch (const std::exception& error) {
    why = error.what();
  }
  return why.c_str();
}

}  // namespace virtual_torch
