// SPDX-License-Identifier: Apache-2.0
// Of the vendor's runtime interface (AscendCL), the names that host code of packages uses beside a
// launch, by its public documentation. A program without torch's device has the host's memory and
// the null stream, on which launches run at once; its streams and contexts are null therefore.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>

typedef int aclError;
typedef void* aclrtStream;
typedef void* aclrtContext;

constexpr aclError ACL_SUCCESS = 0;
constexpr aclError ACL_ERROR_NONE = 0;
constexpr aclError ACL_ERROR_INVALID_PARAM = 100000;
constexpr aclError ACL_ERROR_BAD_ALLOC = 200000;
constexpr aclError ACL_ERROR_FAILURE = 500001;

typedef enum aclrtMemcpyKind {
  ACL_MEMCPY_HOST_TO_HOST,
  ACL_MEMCPY_HOST_TO_DEVICE,
  ACL_MEMCPY_DEVICE_TO_HOST,
  ACL_MEMCPY_DEVICE_TO_DEVICE,
} aclrtMemcpyKind;
typedef enum aclrtMemMallocPolicy {
  ACL_MEM_MALLOC_HUGE_FIRST,
  ACL_MEM_MALLOC_HUGE_ONLY,
  ACL_MEM_MALLOC_NORMAL_ONLY,
} aclrtMemMallocPolicy;

extern "C" int anyop_ascend_synchronize(void* stream);  // of libanyop_ascend

inline aclError aclInit(const char*) { return ACL_SUCCESS; }
inline aclError aclFinalize() { return ACL_SUCCESS; }
inline aclError aclrtSetDevice(int32_t) { return ACL_SUCCESS; }
inline aclError aclrtResetDevice(int32_t) { return ACL_SUCCESS; }
inline aclError aclrtCreateContext(aclrtContext* context, int32_t) {
  *context = nullptr;
  return ACL_SUCCESS;
}
inline aclError aclrtDestroyContext(aclrtContext) { return ACL_SUCCESS; }
inline aclError aclrtCreateStream(aclrtStream* stream) {
  *stream = nullptr;
  return ACL_SUCCESS;
}
inline aclError aclrtDestroyStream(aclrtStream) { return ACL_SUCCESS; }
inline aclError aclrtSynchronizeStream(aclrtStream stream) {
  return anyop_ascend_synchronize(stream) ? ACL_ERROR_FAILURE : ACL_SUCCESS;
}

// 64-byte aligned, and readable for 64 bytes behind the end, as copies of 32 bytes need.
inline aclError aclrtMalloc(void** memory, size_t bytes, aclrtMemMallocPolicy) {
  if (!memory) return ACL_ERROR_INVALID_PARAM;
  *memory = bytes > SIZE_MAX - 128 ? nullptr : std::aligned_alloc(64, (bytes + 127) / 64 * 64);
  return *memory ? ACL_SUCCESS : ACL_ERROR_BAD_ALLOC;
}
inline aclError aclrtFree(void* memory) {
  std::free(memory);
  return ACL_SUCCESS;
}
inline aclError aclrtMallocHost(void** memory, size_t bytes) {
  return aclrtMalloc(memory, bytes, ACL_MEM_MALLOC_NORMAL_ONLY);
}
inline aclError aclrtFreeHost(void* memory) { return aclrtFree(memory); }
inline aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes,
                            aclrtMemcpyKind) {
  if (bytes > room || (bytes && (!to || !from))) return ACL_ERROR_INVALID_PARAM;
  if (bytes) std::memcpy(to, from, bytes);
  return ACL_SUCCESS;
}
inline aclError aclrtMemset(void* to, size_t room, int32_t value, size_t bytes) {
  if (bytes > room || (bytes && !to)) return ACL_ERROR_INVALID_PARAM;
  if (bytes) std::memset(to, value, bytes);
  return ACL_SUCCESS;
}
