// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace anyop::torch_host {

// From now on, calls on torch's own threads are made in the scope of the thread that they are for.
void CarryScopes();

}  // namespace anyop::torch_host
