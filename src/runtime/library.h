// SPDX-License-Identifier: Apache-2.0
// Opening operator libraries and reading their tables.
#pragma once
#include <string>

#include "anyop/abi.h"
#include "runtime/registry.h"

namespace anyop {

// Opens the shared object (never closed again) and reads what it exports. Throws NotAvailable: no
// such file, no operator library, built for a newer boundary.
const anyop_library_info* OpenLibrary(const std::string& path);
// Whether the table is one that this runtime reads; throws NotAvailable, naming both versions.
void CheckInfo(const anyop_library_info* info, const std::string& path);

// The library's operators and references, checked: signatures and expressions parse, and every
// kernel takes the parameters that its signature states.
NewLibrary ReadLibrary(const anyop_library_info& info, const std::string& file);

}  // namespace anyop
