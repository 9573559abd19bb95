// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace virtual_torch {

// Tells torch of the device. Throws where it has one of this kind.
void RegisterGuard();

}  // namespace virtual_torch
