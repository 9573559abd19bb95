// SPDX-License-Identifier: Apache-2.0
// Opening operator libraries and reading their tables.
#pragma once
#include <cstdint>
#include <string>

#include "anyop/abi.h"
#include "runtime/registry.h"

namespace anyop {

// Opens the shared object (never closed again) and reads what it exports. Throws NotAvailable: no
// such file, no operator library, built for a newer boundary.
const anyop_library_info* OpenLibrary(const std::string& path);
// The same of a file that may have been built again since the process opened it: its newest content
// is what the table is of, and `fingerprint` tells contents apart.
struct Image {
  const anyop_library_info* info;
  std::uint64_t fingerprint;
};
Image OpenImage(const std::string& path);
// Whether the table is one that this runtime reads; throws NotAvailable, naming both versions.
void CheckInfo(const anyop_library_info* info, const std::string& path);

// The library's operators and references, checked: signatures and expressions parse, and every
// kernel takes the parameters that its signature states.
NewLibrary ReadLibrary(const anyop_library_info& info, const std::string& file,
                       std::uint64_t fingerprint = 0);

}  // namespace anyop
