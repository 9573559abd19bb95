// SPDX-License-Identifier: Apache-2.0
// Tensors of any strides, for the library's own kernels.
#pragma once
#include "devices/cuda/card.h"
#include "devices/cuda/device_kernels.h"

// The image of device.cu.
extern "C" const unsigned char anyop_cuda_image_device[];

namespace anyop::cuda {

// Of as few dimensions as its strides allow. Throws Failure: more than 8 dimensions.
Strided StridedOf(const DLTensor& t);

void Pack(StreamHandle* stream, const DLTensor& from, void* to);
void Unpack(StreamHandle* stream, const void* from, const DLTensor& to);
void Fill(StreamHandle* stream, void* to, std::uint64_t count, const void* item,
          std::uint64_t item_bytes);

}  // namespace anyop::cuda
