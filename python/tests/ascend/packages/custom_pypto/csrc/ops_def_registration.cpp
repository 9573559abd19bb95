// SPDX-License-Identifier: Apache-2.0
#include <torch/library.h>

TORCH_LIBRARY(custom_pypto, m) {
  m.def("add_custom(Tensor self, Tensor other, *, float alpha=1.0) -> Tensor");
  m.def(
      "add_custom.out(Tensor self, Tensor other, *, float alpha=1.0, "
      "Tensor(a!) out) -> Tensor(a!)");
}
