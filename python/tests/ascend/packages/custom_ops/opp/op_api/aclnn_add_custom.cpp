// SPDX-License-Identifier: Apache-2.0
#include "aclnn_add_custom.h"

#include <memory>

#include "../op_kernel/add_custom.hpp"

extern "C" __global__ __aicore__ void add_custom(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR workspace,
                                                 uint32_t size, float alpha) {
  AddCustom op;
  op.Init(x, y, z, workspace, size);
  op.Process(alpha);
}

namespace {

struct Plan {
  uint8_t *x, *y, *z;
  uint32_t size;
  float alpha;
};

// False where the tensor is not float.
bool Look(const aclTensor *tensor, uint8_t **address, uint32_t *size) {
  aclDataType type;
  int64_t *sizes = nullptr, offset = 0;
  uint64_t rank = 0;
  void *data = nullptr;
  if (aclGetDataType(tensor, &type) != 0 || type != ACL_FLOAT) return false;
  aclGetViewShape(tensor, &sizes, &rank);
  aclGetViewOffset(tensor, &offset);
  aclGetRawTensorAddr(tensor, &data);
  *size = 1;
  for (uint64_t i = 0; i < rank; ++i) *size *= uint32_t(sizes[i]);
  delete[] sizes;
  *address = static_cast<uint8_t *>(data) + offset * int64_t(sizeof(float));
  return true;
}

}  // namespace

aclnnStatus aclnnAddCustomGetWorkspaceSize(const aclTensor *self, const aclTensor *other,
                                           double alpha, const aclTensor *out,
                                           uint64_t *workspaceSize, aclOpExecutor **executor) {
  auto plan = std::make_unique<Plan>();
  uint32_t sizes[2];
  if (!Look(self, &plan->x, &sizes[0]) || !Look(other, &plan->y, &sizes[1]) ||
      !Look(out, &plan->z, &plan->size)) {
    return ACLNN_ERR_PARAM_INVALID;
  }
  if (sizes[0] != plan->size || sizes[1] != plan->size) return ACLNN_ERR_PARAM_INVALID;
  plan->alpha = static_cast<float>(alpha);
  *workspaceSize = plan->size * sizeof(float);
  *executor = reinterpret_cast<aclOpExecutor *>(plan.release());
  return ACLNN_SUCCESS;
}

aclnnStatus aclnnAddCustom(void *workspace, uint64_t, aclOpExecutor *executor, aclrtStream stream) {
  if (!executor) return ACLNN_ERR_PARAM_NULLPTR;
  const std::unique_ptr<Plan> plan(reinterpret_cast<Plan *>(executor));
  if (plan->size == 0) return ACLNN_SUCCESS;
  add_custom<<<8, nullptr, stream>>>(plan->x, plan->y, plan->z, static_cast<uint8_t *>(workspace),
                                     plan->size, plan->alpha);
  return ACLNN_SUCCESS;
}
