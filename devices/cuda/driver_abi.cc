// SPDX-License-Identifier: Apache-2.0
// What driver.h declares by hand is what the toolkit's header says: compiled, never called.
#include "devices/cuda/driver.h"

#if __has_include(<cuda.h>)
#include <cuda.h>

#include <type_traits>

namespace anyop::cuda {
namespace {

// Equal ways to pass one argument: pointers, enums and integers of the same size.
template <class A, class B>
constexpr bool kPassesAs = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;

template <class A, class B>
struct Passes : std::false_type {};
template <class R, class S, class... A, class... B>
requires(sizeof...(A) == sizeof...(B)) struct Passes<R (*)(A...), S (*)(B...)> {
  static constexpr bool value = sizeof(R) == sizeof(S) && (kPassesAs<A, B> && ...);
};

#define SAME(member, function) \
  static_assert(Passes<decltype(Driver::member), decltype(&function)>::value, #function)
SAME(init, cuInit);
SAME(error_name, cuGetErrorName);
SAME(error_string, cuGetErrorString);
SAME(device_count, cuDeviceGetCount);
SAME(device_name, cuDeviceGetName);
SAME(device_attribute, cuDeviceGetAttribute);
SAME(device_bytes, cuDeviceTotalMem_v2);
SAME(retain_context, cuDevicePrimaryCtxRetain);
SAME(get_context, cuCtxGetCurrent);
SAME(set_context, cuCtxSetCurrent);
SAME(push_context, cuCtxPushCurrent_v2);
SAME(pop_context, cuCtxPopCurrent_v2);
SAME(context_device, cuCtxGetDevice);
SAME(synchronize_context, cuCtxSynchronize);
SAME(memory_info, cuMemGetInfo_v2);
SAME(allocate, cuMemAlloc_v2);
SAME(allocate_host, cuMemHostAlloc);
SAME(create_pool, cuMemPoolCreate);
SAME(set_pool_attribute, cuMemPoolSetAttribute);
SAME(trim_pool, cuMemPoolTrimTo);
SAME(allocate_from_pool, cuMemAllocFromPoolAsync);
SAME(free, cuMemFreeAsync);
SAME(copy, cuMemcpyAsync);
SAME(fill8, cuMemsetD8Async);
SAME(fill16, cuMemsetD16Async);
SAME(fill32, cuMemsetD32Async);
SAME(create_stream, cuStreamCreate);
SAME(destroy_stream, cuStreamDestroy_v2);
SAME(synchronize_stream, cuStreamSynchronize);
SAME(stream_context, cuStreamGetCtx);
SAME(exchange_capture_mode, cuThreadExchangeStreamCaptureMode);
SAME(wait_event, cuStreamWaitEvent);
SAME(create_event, cuEventCreate);
SAME(destroy_event, cuEventDestroy_v2);
SAME(record_event, cuEventRecord);
SAME(query_event, cuEventQuery);
SAME(synchronize_event, cuEventSynchronize);
SAME(elapsed, cuEventElapsedTime);
SAME(load_module, cuModuleLoadData);
SAME(module_function, cuModuleGetFunction);
SAME(function_attribute, cuFuncGetAttribute);
SAME(launch, cuLaunchKernel);
#undef SAME

static_assert(kSuccess == CUDA_SUCCESS && kInvalidValue == CUDA_ERROR_INVALID_VALUE &&
              kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY &&
              kNotInitialized == CUDA_ERROR_NOT_INITIALIZED && kNoDevice == CUDA_ERROR_NO_DEVICE &&
              kNotReady == CUDA_ERROR_NOT_READY);
static_assert(kMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT &&
              kMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR &&
              kMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR &&
              kPoolsSupported == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
static_assert(kNonBlocking == CU_STREAM_NON_BLOCKING &&
              kPortableMapped == (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
static_assert(kReleaseThreshold == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD &&
              kRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED &&
              kRegistersOfFunction == CU_FUNC_ATTRIBUTE_NUM_REGS &&
              kIsCapturing == CU_STREAM_CAPTURE_STATUS_ACTIVE);
static_assert(sizeof(PoolProperties) == sizeof(CUmemPoolProps) &&
              offsetof(PoolProperties, location_id) == offsetof(CUmemPoolProps, location.id) &&
              offsetof(PoolProperties, max_bytes) == offsetof(CUmemPoolProps, maxSize) &&
              CU_MEM_ALLOCATION_TYPE_PINNED == 1 && CU_MEM_LOCATION_TYPE_DEVICE == 1);

}  // namespace
}  // namespace anyop::cuda
#endif
