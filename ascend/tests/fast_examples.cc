// SPDX-License-Identifier: Apache-2.0
// Built without checks, as `anyop ascend run` builds them (cmake/ascend.cmake).
#include "builds.h"
#define KERNELS ascend_tests::fast
#define NAMED(kernel) fast_##kernel
#include "examples.inc"
