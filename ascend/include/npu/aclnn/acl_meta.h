// SPDX-License-Identifier: Apache-2.0
// The objects that functions of operators (aclnnX) take, by the names of the vendor's public
// documentation. devices/npu/aclnn has them.
#pragma once
#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aclOpExecutor aclOpExecutor;
typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct aclIntArray aclIntArray;
typedef struct aclFloatArray aclFloatArray;
typedef struct aclBoolArray aclBoolArray;
typedef struct aclTensorList aclTensorList;
typedef struct aclScalarList aclScalarList;
typedef int32_t aclnnStatus;
#define ACLNN_SUCCESS 0
#define ACLNN_ERR_PARAM_NULLPTR 161001
#define ACLNN_ERR_PARAM_INVALID 161002
#define ACLNN_ERR_RUNTIME_ERROR 361001
#define ACLNN_ERR_INNER 561000

aclnnStatus aclnnInit(const char* configuration);
aclnnStatus aclnnFinalize(void);

aclTensor* aclCreateTensor(const int64_t* sizes, uint64_t rank, aclDataType type,
                           const int64_t* strides, int64_t offset, aclFormat format,
                           const int64_t* storage_sizes, uint64_t storage_rank, void* data);
aclScalar* aclCreateScalar(void* value, aclDataType type);
aclIntArray* aclCreateIntArray(const int64_t* values, uint64_t count);
aclFloatArray* aclCreateFloatArray(const float* values, uint64_t count);
aclBoolArray* aclCreateBoolArray(const bool* values, uint64_t count);
aclTensorList* aclCreateTensorList(const aclTensor* const* values, uint64_t count);
aclScalarList* aclCreateScalarList(const aclScalar* const* values, uint64_t count);

aclnnStatus aclDestroyTensor(const aclTensor* tensor);
aclnnStatus aclDestroyScalar(const aclScalar* scalar);
aclnnStatus aclDestroyIntArray(const aclIntArray* list);
aclnnStatus aclDestroyFloatArray(const aclFloatArray* list);
aclnnStatus aclDestroyBoolArray(const aclBoolArray* list);
aclnnStatus aclDestroyTensorList(const aclTensorList* list);
aclnnStatus aclDestroyScalarList(const aclScalarList* list);
aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor);
aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor);

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** sizes, uint64_t* rank);
aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** sizes, uint64_t* rank);
aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** strides, uint64_t* rank);
aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset);
aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format);
aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* type);
aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** data);
aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* data);
aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, size_t index, aclTensor* tensor, void* data);
aclnnStatus aclGetIntArraySize(const aclIntArray* list, uint64_t* size);
aclnnStatus aclGetFloatArraySize(const aclFloatArray* list, uint64_t* size);
aclnnStatus aclGetBoolArraySize(const aclBoolArray* list, uint64_t* size);
aclnnStatus aclGetTensorListSize(const aclTensorList* list, uint64_t* size);
aclnnStatus aclGetScalarListSize(const aclScalarList* list, uint64_t* size);

#ifdef __cplusplus
}
#endif
