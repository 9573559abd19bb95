// SPDX-License-Identifier: Apache-2.0
#include <pybind11/pybind11.h>
#include <torch/library.h>

TORCH_LIBRARY(custom_pypto, m) {
  m.def("add_custom(Tensor self, Tensor other, *, float alpha=1.0) -> Tensor");
  m.def(
      "add_custom.out(Tensor self, Tensor other, *, float alpha=1.0, "
      "Tensor(a!) out) -> Tensor(a!)");
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}
