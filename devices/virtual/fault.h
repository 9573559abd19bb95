// SPDX-License-Identifier: Apache-2.0
// Names the device and the offset on standard error when a thread touches what it must not.
#pragma once

namespace virtual_device {

struct Machine;

// Installs a handler of SIGSEGV and SIGBUS. The one that was there runs after it.
void NameFaults(const Machine* machine);

}  // namespace virtual_device
