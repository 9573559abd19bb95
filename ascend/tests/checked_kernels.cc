// SPDX-License-Identifier: Apache-2.0
#include "builds.h"
#define KERNELS ascend_tests::checked
#include "kernels.inc"
