// SPDX-License-Identifier: Apache-2.0
// Copies of tensors between layouts.
#pragma once
#include <cstdint>
#include <vector>

#include "anyop/abi.h"

namespace anyop {

// Bytes of the elements without gaps.
std::int64_t PackedBytes(const DLTensor& t);

// Writes the elements of `from`, in row-major order, to `to`, without gaps. Any strides, any
// alignment; element sizes 1, 2, 4 and 8.
void CopyToPacked(const DLTensor& from, void* to);
// The same in new memory.
std::vector<char> Packed(const DLTensor& from);
// Writes the elements that lie at `from` without gaps to where `to` has them. Any strides and
// alignment of `to`, as above.
void CopyFromPacked(const void* from, const DLTensor& to);

}  // namespace anyop
