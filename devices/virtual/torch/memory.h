// SPDX-License-Identifier: Apache-2.0
// Memory of the device, and memory of the host that copies use after they have returned.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/CachingDeviceAllocator.h>

namespace virtual_torch {

c10::DeviceAllocator& DeviceMemory();
c10::Allocator& PinnedAllocator();
bool IsPinned(const void* data);
// As `resize_` wants it: the old bytes are copied in the order of the current stream.
void ResizeBytes(const c10::Storage& storage, std::size_t bytes);

// Gives a tensor of the device the shape; its memory grows where it must, old bytes kept.
void Resize(const at::Tensor& tensor, c10::IntArrayRef sizes,
            std::optional<at::MemoryFormat> format);

}  // namespace virtual_torch
