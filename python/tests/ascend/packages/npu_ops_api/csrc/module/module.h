// SPDX-License-Identifier: Apache-2.0
// One Python module for the functions of several files.
#pragma once
#include <pybind11/pybind11.h>

#include <functional>
#include <vector>

using ModuleRegisterFunction = std::function<void(pybind11::module_ &)>;

inline std::vector<ModuleRegisterFunction> &Registered() {
  static std::vector<ModuleRegisterFunction> functions;
  return functions;
}

#define NPU_OPS_EXTENSION_MODULE(m)                                              \
  static void RegisterFunctions(pybind11::module_ &m);                           \
  namespace {                                                                    \
  const bool kIsRegistered = (Registered().push_back(&RegisterFunctions), true); \
  }                                                                              \
  static void RegisterFunctions(pybind11::module_ &m)
