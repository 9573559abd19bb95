// SPDX-License-Identifier: Apache-2.0
#include "ops/common/gemm/instances.h"
