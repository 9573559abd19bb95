// SPDX-License-Identifier: Apache-2.0
// A header that kernels include beside, or instead of, kernel_operator.h.
#pragma once
#include "kernel_operator.h"
