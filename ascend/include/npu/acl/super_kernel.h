// SPDX-License-Identifier: Apache-2.0
// Kernels that are joined into one: a type that torch_npu's headers name.
#pragma once
#include "acl/acl_mdl.h"

typedef struct aclskOptions aclskOptions;
