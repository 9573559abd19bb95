// SPDX-License-Identifier: Apache-2.0
// The profiler: its types, which torch_npu's headers name.
#pragma once
#include "acl/acl_base.h"

#define ACL_PROF_ACL_API 0x0001ULL

typedef struct aclprofConfig aclprofConfig;
typedef struct aclprofStepInfo aclprofStepInfo;
typedef struct aclprofAicoreEvents aclprofAicoreEvents;
typedef enum { ACL_STEP_START, ACL_STEP_END } aclprofStepTag;
typedef enum {
  ACL_AICORE_ARITHMETIC_UTILIZATION,
  ACL_AICORE_PIPE_UTILIZATION,
  ACL_AICORE_MEMORY_BANDWIDTH,
  ACL_AICORE_L0B_AND_WIDTH,
  ACL_AICORE_RESOURCE_CONFLICT_RATIO,
  ACL_AICORE_NONE = 0xFF,
} aclprofAicoreMetrics;
