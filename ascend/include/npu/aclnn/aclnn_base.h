// SPDX-License-Identifier: Apache-2.0
// What headers of operators' functions include.
#pragma once
#include "aclnn/acl_meta.h"
