// SPDX-License-Identifier: Apache-2.0
// The one function that XLA calls for every operator. An attribute of the program, the text of a
// bound call, says which operator that is, and with which arguments beside its tensors.
#pragma once
#include "xla_ffi.h"

namespace anyop::python {

// Attributes, both strings: `call`, the text of a bound call, and `contract`, the contract of its
// operator where the program was made. Inputs: its tensors. Results: the tensors that it writes,
// in the memory of its inputs or in memory of their own, then its results; a result may be of 32
// bits where the operator makes 64. Keeps no state, so that any thread may call it.
xla::Error* HandleXlaCall(xla::Frame* frame);

}  // namespace anyop::python
