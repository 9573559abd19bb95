// SPDX-License-Identifier: Apache-2.0
// Devices, memory, streams and events of AscendCL. The functions that are declared are those of the
// virtual NPU (devices/npu), which torch_npu's own library is linked with.
#pragma once
#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ACL_EVENT_SYNC 0x00000001u
#define ACL_EVENT_CAPTURE_STREAM_PROGRESS 0x00000002u
#define ACL_EVENT_TIME_LINE 0x00000008u
#define ACL_STREAM_FAST_LAUNCH 0x00000001u
#define ACL_STREAM_FAST_SYNC 0x00000002u
#define ACL_ERROR_RT_DEVICE_TASK_ABORT 107022

typedef enum aclrtMemcpyKind {
  ACL_MEMCPY_HOST_TO_HOST,
  ACL_MEMCPY_HOST_TO_DEVICE,
  ACL_MEMCPY_DEVICE_TO_HOST,
  ACL_MEMCPY_DEVICE_TO_DEVICE,
  ACL_MEMCPY_DEFAULT,
} aclrtMemcpyKind;
typedef enum aclrtMemMallocPolicy {
  ACL_MEM_MALLOC_HUGE_FIRST,
  ACL_MEM_MALLOC_HUGE_ONLY,
  ACL_MEM_MALLOC_NORMAL_ONLY,
} aclrtMemMallocPolicy;
typedef enum aclrtMemAttr { ACL_DDR_MEM, ACL_HBM_MEM } aclrtMemAttr;
typedef enum aclrtRunMode { ACL_DEVICE, ACL_HOST } aclrtRunMode;
typedef enum aclrtCallbackBlockType {
  ACL_CALLBACK_NO_BLOCK,
  ACL_CALLBACK_BLOCK
} aclrtCallbackBlockType;
typedef enum aclrtFloatOverflowMode {
  ACL_RT_OVERFLOW_MODE_SATURATION,
  ACL_RT_OVERFLOW_MODE_INFNAN,
} aclrtFloatOverflowMode;
typedef enum aclrtHostRegisterType { ACL_HOST_REGISTER_MAPPED } aclrtHostRegisterType;
typedef enum aclrtLastErrLevel { ACL_RT_THREAD_LEVEL } aclrtLastErrLevel;
typedef enum aclrtCmoType { ACL_RT_CMO_TYPE_PREFETCH } aclrtCmoType;
typedef enum aclSysParamOpt {
  ACL_OPT_DETERMINISTIC,
  ACL_OPT_ENABLE_DEBUG_KERNEL,
  ACL_OPT_STRONG_CONSISTENCY,
} aclSysParamOpt;

typedef void (*aclrtCallback)(void* data);
typedef void* aclrtBinary;
typedef void* aclrtBinHandle;
typedef void* aclrtFuncHandle;
typedef void* aclrtArgsHandle;
typedef void* aclrtParamHandle;
typedef void* aclrtTaskGrp;
typedef void* aclrtDrvMemHandle;

// A place of memory that has gone bad, which no virtual memory does.
#define MAX_MEM_UCE_INFO_ARRAY_SIZE 128
typedef struct aclrtMemUceInfo {
  void* addr;
  size_t len;
  size_t reserved[14];
} aclrtMemUceInfo;
typedef struct aclrtUtilizationInfo aclrtUtilizationInfo;
typedef struct aclrtMallocConfig aclrtMallocConfig;
typedef struct aclrtPhysicalMemProp aclrtPhysicalMemProp;
typedef struct aclrtPtrAttributes aclrtPtrAttributes;
typedef struct aclrtMemcpyBatchAttr aclrtMemcpyBatchAttr;
typedef struct aclrtBinaryLoadOptions aclrtBinaryLoadOptions;
typedef struct aclrtLaunchKernelCfg aclrtLaunchKernelCfg;
typedef union aclrtStreamAttrValue aclrtStreamAttrValue;
// Of these no value is known here; they are passed on.
typedef int32_t aclCannAttr;
typedef int32_t aclDeviceInfo;
typedef int32_t aclrtDevAttr;
typedef int32_t aclrtMemHandleType;
typedef int32_t aclrtStreamAttr;
typedef int32_t aclCANNPackageName;
typedef struct aclCANNPackageVersion aclCANNPackageVersion;

aclError aclInit(const char* configuration);
aclError aclFinalize(void);
const char* aclGetRecentErrMsg(void);

aclError aclrtSetDevice(int32_t device);
aclError aclrtResetDevice(int32_t device);
aclError aclrtGetDevice(int32_t* device);
aclError aclrtGetDeviceCount(uint32_t* count);
const char* aclrtGetSocName(void);
aclError aclrtSynchronizeDevice(void);
aclError aclrtGetCurrentContext(aclrtContext* context);
aclError aclrtSetCurrentContext(aclrtContext context);

aclError aclrtMalloc(void** memory, size_t bytes, aclrtMemMallocPolicy policy);
aclError aclrtFree(void* memory);
aclError aclrtMallocHost(void** memory, size_t bytes);
aclError aclrtFreeHost(void* memory);
aclError aclrtGetMemInfo(aclrtMemAttr attribute, size_t* free, size_t* total);
aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind);
aclError aclrtMemcpyAsync(void* to, size_t room, const void* from, size_t bytes,
                          aclrtMemcpyKind kind, aclrtStream stream);
aclError aclrtMemset(void* to, size_t room, int32_t value, size_t bytes);
aclError aclrtMemsetAsync(void* to, size_t room, int32_t value, size_t bytes, aclrtStream stream);

aclError aclrtCreateStream(aclrtStream* stream);
aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag);
aclError aclrtDestroyStream(aclrtStream stream);
aclError aclrtSynchronizeStream(aclrtStream stream);
aclError aclrtCreateEvent(aclrtEvent* event);
aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag);
aclError aclrtDestroyEvent(aclrtEvent event);
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);
aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);
aclError aclrtSynchronizeEvent(aclrtEvent event);
aclError aclrtEventElapsedTime(float* milliseconds, aclrtEvent from, aclrtEvent to);
aclError aclrtLaunchCallback(aclrtCallback function, void* data, aclrtCallbackBlockType kind,
                             aclrtStream stream);

// Programs for a chip. The virtual NPU runs none: each is an error that says so.
aclError aclrtBinaryLoadFromFile(const char* path, aclrtBinaryLoadOptions* options,
                                 aclrtBinHandle* binary);
aclError aclrtBinaryLoadFromData(const void* data, size_t bytes,
                                 const aclrtBinaryLoadOptions* options, aclrtBinHandle* binary);
aclError aclrtBinaryGetFunction(aclrtBinHandle binary, const char* name, aclrtFuncHandle* function);
aclError aclrtBinaryUnLoad(aclrtBinHandle binary);
aclError aclrtLaunchKernel(aclrtFuncHandle function, uint32_t blocks, const void* arguments,
                           size_t bytes, aclrtStream stream);
aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle function, uint32_t blocks, aclrtStream stream,
                                     aclrtLaunchKernelCfg* configuration, aclrtArgsHandle arguments,
                                     void* reserved);
aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle function, uint32_t blocks,
                                       aclrtStream stream, aclrtLaunchKernelCfg* configuration,
                                       void* arguments, size_t bytes, void* places, size_t count);

#ifdef __cplusplus
}
#endif
