// SPDX-License-Identifier: Apache-2.0
// Operators by name, the interface before aclnn: its objects, which torch_npu's headers name.
#pragma once
#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aclopAttr aclopAttr;
typedef enum aclEngineType { ACL_ENGINE_SYS, ACL_ENGINE_AICORE, ACL_ENGINE_VECTOR } aclopEngineType;

aclopAttr* aclopCreateAttr(void);
void aclopDestroyAttr(const aclopAttr* attributes);
aclDataBuffer* aclCreateDataBuffer(void* data, size_t bytes);
aclError aclDestroyDataBuffer(const aclDataBuffer* buffer);
aclTensorDesc* aclCreateTensorDesc(aclDataType type, int dimensions, const int64_t* sizes,
                                   aclFormat format);
void aclDestroyTensorDesc(const aclTensorDesc* description);
void aclSetTensorDescName(aclTensorDesc* description, const char* name);
aclError aclSetTensorShape(aclTensorDesc* description, int dimensions, const int64_t* sizes);
aclError aclSetTensorShapeRange(aclTensorDesc* description, size_t count, int64_t ranges[][2]);
aclError aclSetTensorFormat(aclTensorDesc* description, aclFormat format);
aclError aclSetTensorPlaceMent(aclTensorDesc* description, aclMemType memory);
aclError aclSetTensorConst(aclTensorDesc* description, void* data, size_t bytes);

#ifdef __cplusplus
}
#endif
