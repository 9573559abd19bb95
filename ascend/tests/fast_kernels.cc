// SPDX-License-Identifier: Apache-2.0
// Built without checks (cmake/ascend.cmake).
#include "builds.h"
#define KERNELS ascend_tests::fast
#include "kernels.inc"
