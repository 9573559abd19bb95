// SPDX-License-Identifier: Apache-2.0
// A call as one block of bytes, which a device's own thread reads after the caller has returned.
// Values, tensors, texts and lists are copied into it, and it says where addresses of the device
// stand, which the device may have to translate.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/plan/plan.h"

namespace anyop {

// Which checks of data a task makes before the kernel.
struct PackedChecks {
  bool indices = false, own = false;  // the operator's .check
};

// Throws Unsupported where the call's planned tensors are too large to go along with its work.
void CheckPlannedBytes(const Operator& op, const anyop_value* frame);
// Puts the plan's kernel on the stream; of a composition, whose calls are put there one by one, the
// checks alone. workspace: the device's memory, or null. Throws what `submit` says.
void SubmitKernel(const Operator& op, Plan& plan, const anyop_value* frame, PackedChecks checks,
                  void* workspace, anyop_stream stream);
// Puts a strided copy on the stream: from `tensor` to `packed`, or the other way.
void SubmitCopy(const DeviceKind& kind, int number, const DLTensor& tensor, void* packed,
                bool to_packed, anyop_stream stream);

}  // namespace anyop
