// SPDX-License-Identifier: Apache-2.0
// Shared objects as files, before the system's loader maps them.
#pragma once
#include <string>

namespace anyop {

// Throws NotAvailable for a shared object that is shorter than its header says: the loader maps it
// nevertheless, and the process ends where a missing page is read. Any other file passes, since the
// loader refuses it with a text of its own.
void CheckIsWhole(const std::string& path);

}  // namespace anyop
