// SPDX-License-Identifier: Apache-2.0
#include "builds.h"
#define KERNELS ascend_tests::checked
#define NAMED(kernel) checked_##kernel
#include "examples.inc"
