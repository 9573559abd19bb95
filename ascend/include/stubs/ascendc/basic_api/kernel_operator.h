// SPDX-License-Identifier: Apache-2.0
// The path of kernel_operator.h in newer packages; the brackets leave this folder out.
#pragma once
#include <kernel_operator.h>
