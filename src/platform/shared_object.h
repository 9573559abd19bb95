// SPDX-License-Identifier: Apache-2.0
// Shared objects as files, before the system's loader maps them.
#pragma once
#include <string>

namespace anyop {

// Throws NotAvailable for a shared object that ends before what its header tells of: the loader
// maps it nevertheless, and the process ends where a missing page is read. Any other file passes.
void CheckIsWhole(const std::string& path);

}  // namespace anyop
