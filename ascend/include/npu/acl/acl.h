// SPDX-License-Identifier: Apache-2.0
// AscendCL as host code of packages includes it: types, devices, memory, streams and events.
#pragma once
#include "acl/acl_base.h"
#include "acl/acl_mdl.h"
#include "acl/acl_op.h"
#include "acl/acl_rt.h"
