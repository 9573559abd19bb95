// SPDX-License-Identifier: Apache-2.0
// Calls whose tensors lie on a device: put on its current stream, and not waited for.
#pragma once
#include "runtime/plan.h"

namespace anyop {

// As RunSlow, after the check of memory. Errors of earlier work on the stream are thrown first.
void RunOnDevice(Operator& op, Plan& plan, const anyop_value* frame);

// The parameters that such a call copies to the host, by bit, and waits for once, because its
// checks read their data.
std::uint64_t CopiedForChecks(const Operator& op, const Plan& plan, const anyop_value* frame);

// Copies in the order of the current stream; strided ones by the device. They throw Unsupported
// where it cannot.
// Device to device: the elements of `from`, without gaps; and the other way.
void PackOnDevice(const DLTensor& from, void* to);
void UnpackOnDevice(const void* from, const DLTensor& to);
// Every element of contiguous memory is the host's *item.
void FillOnDevice(const DLTensor& to, const void* item);
// Between a device's tensor and the host's memory without gaps. Waits for the work on the stream,
// and throws its late error.
void CopyToHost(const DLTensor& from, void* to);
void CopyFromHost(const void* from, const DLTensor& to);

}  // namespace anyop
