// SPDX-License-Identifier: Apache-2.0
// For the vendor's compiler, which must find its own kernel_operator.h and not the dialect's beside
// anyop/ascend.h.
#pragma once
#include "../../anyop/ascend.h"
