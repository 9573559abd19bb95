// SPDX-License-Identifier: Apache-2.0
// The registration of operators: their tiling functions can be called here (kernel_table.h).
#pragma once
#include "anyop_ascend/host/registry.h"
#include "stubs/register/tilingdata_base.h"
