// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <aclnn/aclnn_base.h>

#ifdef __cplusplus
extern "C" {
#endif

// out = self + alpha * other, of contiguous tensors of float of one shape.
__attribute__((visibility("default"))) aclnnStatus aclnnAddCustomGetWorkspaceSize(
    const aclTensor *self, const aclTensor *other, double alpha, const aclTensor *out,
    uint64_t *workspaceSize, aclOpExecutor **executor);
__attribute__((visibility("default"))) aclnnStatus aclnnAddCustom(void *workspace,
                                                                  uint64_t workspaceSize,
                                                                  aclOpExecutor *executor,
                                                                  aclrtStream stream);

#ifdef __cplusplus
}
#endif
