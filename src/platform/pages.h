// SPDX-License-Identifier: Apache-2.0
// Memory straight from the system, in huge pages where it is large.
#pragma once
#include <cstdint>

namespace anyop {

// The bytes that a request of `bytes` takes: whole pages, huge ones from 2 MiB on.
std::uint64_t PageBytes(std::uint64_t bytes);

// Zeroed memory of PageBytes bytes, at the start of a page; null if there is none.
void* MapPages(std::uint64_t page_bytes);
void UnmapPages(void* memory, std::uint64_t page_bytes);

}  // namespace anyop
