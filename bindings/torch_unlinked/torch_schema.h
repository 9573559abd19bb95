// SPDX-License-Identifier: Apache-2.0
// The schema of an operator in PyTorch's language: the union of its forms.
#pragma once
#include <string>

#include "signature/contract.h"

namespace anyop::python {

enum class SchemaKind {
  kFunctional,  // "f(Tensor x, Tensor(a!) cache, float eps=1e-06) -> Tensor"
  kOut,         // "f.out(Tensor x, float eps=1e-06, *, Tensor(a!) out) -> Tensor(a!)"
  kInPlace      // "f_(Tensor(a!) x, float eps=1e-06) -> Tensor(a!)"
};

// Without a namespace. "" where there is no such variant (Facts).
// kOut names its arguments `out`, or `out_<result>` of several; it returns them only where the
// operator writes nothing else. Facts.takes_mask adds the argument
// `bool[n]? output_mask=None`, as torch's own gradients have it.
std::string TorchSchema(const Contract& contract, SchemaKind kind = SchemaKind::kFunctional);

}  // namespace anyop::python
