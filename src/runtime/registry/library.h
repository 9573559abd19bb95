// SPDX-License-Identifier: Apache-2.0
// Opening operator libraries and reading their tables.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "anyop/abi.h"
#include "runtime/registry/added_kernels.h"
#include "runtime/registry/registry.h"

namespace anyop {

// What a shared object exports: operators, a device, or both.
struct LibraryTables {
  const anyop_library_info* operators = nullptr;
  const anyop_device_info* device = nullptr;
};
// Opens the shared object (never closed again) and reads what it exports. Throws NotAvailable: no
// such file, no library of anyop's, built for a newer boundary.
LibraryTables OpenLibrary(const std::string& path);
// The same for a file that may have been built again since the process opened it: the tables are of
// its newest content, and `fingerprint` tells contents apart.
struct Image {
  LibraryTables tables;
  std::uint64_t fingerprint;
};
Image OpenImage(const std::string& path);
// Throws NotAvailable, with both versions, if this runtime cannot read the table.
void CheckInfo(const anyop_library_info* info, const std::string& path);

// The library's operators and references, checked: signatures and expressions parse, and every
// kernel takes the parameters that its signature states.
NewLibrary ReadLibrary(const anyop_library_info& info, const std::string& file,
                       std::uint64_t fingerprint = 0);
// The operator made anew from the table that `known` was read from, with these kernels in front of
// its own. Plans hold places in the list of kernels of `known`, which therefore stays.
std::unique_ptr<Operator> ReadWithKernels(const Operator& known,
                                          std::span<const AddedKernels::Added> added);

}  // namespace anyop
