// SPDX-License-Identifier: Apache-2.0
// The schema of an operator in PyTorch's language: the union of its forms.
#pragma once
#include <string>

#include "signature/contract.h"

namespace anyop {

enum class SchemaKind {
  kFunctional,  // "f(Tensor x, Tensor(a!) cache, float eps=1e-06) -> Tensor"
  kOut,         // "f.out(Tensor x, float eps=1e-06, *, Tensor(a!) out) -> Tensor(a!)"
  kInPlace      // "f_(Tensor(a!) x, float eps=1e-06) -> Tensor(a!)"
};

// Without a namespace. "" where there is no such variant: kOut needs a result, kInPlace a single
// one that may take the first parameter's memory in every form, and no mut argument.
// kOut names its arguments `out`, or `out_<result>` of several; it returns them only where the
// operator writes nothing else. Several results, some with `?`, add the argument
// `bool[n]? output_mask=None`, as torch's own gradients have it.
std::string TorchSchema(const Contract& contract, SchemaKind kind = SchemaKind::kFunctional);

// Whether the schema ends with output_mask: one of several results may be declined.
bool HasOutputMask(const Contract& contract);

}  // namespace anyop
