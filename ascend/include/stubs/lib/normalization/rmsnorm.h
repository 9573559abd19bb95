// SPDX-License-Identifier: Apache-2.0
// Extended functions are not part of kernel_operator.h: kernels may use their names for themselves.
#pragma once
#include "anyop_ascend/extended.h"
#include "kernel_operator.h"
