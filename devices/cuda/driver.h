// SPDX-License-Identifier: Apache-2.0
// NVIDIA's driver, libcuda.so.1, opened when it is first needed: nothing of CUDA is linked, and
// none of its headers is read, so that this library loads where there is no card. What is declared
// here is the part of the documented interface that is used; driver_abi.cc compares it with the
// toolkit's header where the build has that.
#pragma once
#include <cstddef>
#include <cstdint>

namespace anyop::cuda {

using Result = int;  // CUresult
using Pointer = unsigned long long;
struct ContextHandle;
struct StreamHandle;
struct EventHandle;
struct ModuleHandle;
struct FunctionHandle;
struct PoolHandle;

inline constexpr Result kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3,
                        kNoDevice = 100, kNotReady = 600;
inline constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76, kPoolsSupported = 115;
inline constexpr unsigned kNonBlocking = 1, kPortableMapped = 3;
inline constexpr int kReleaseThreshold = 4, kRelaxed = 2, kRegistersOfFunction = 4,
                     kIsCapturing = 1;

struct PoolProperties {     // CUmemPoolProps
  int allocation_type = 1;  // pinned
  int handle_types = 0;
  int location_type = 1;  // a device
  int location_id = 0;
  void* security_attributes = nullptr;
  std::size_t max_bytes = 0;
  unsigned short usage = 0;
  unsigned char reserved[54] = {};
};

struct Driver {
  Result (*init)(unsigned flags);
  Result (*error_name)(Result, const char**);
  Result (*error_string)(Result, const char**);
  Result (*device_count)(int*);
  Result (*device_name)(char*, int bytes, int device);
  Result (*device_attribute)(int*, int attribute, int device);
  Result (*device_bytes)(std::size_t*, int device);
  Result (*retain_context)(ContextHandle**, int device);
  Result (*get_context)(ContextHandle**);
  Result (*set_context)(ContextHandle*);
  Result (*push_context)(ContextHandle*);
  Result (*pop_context)(ContextHandle**);
  Result (*context_device)(int*);
  Result (*synchronize_context)();
  Result (*memory_info)(std::size_t* free, std::size_t* total);
  Result (*allocate)(Pointer*, std::size_t bytes);
  Result (*allocate_host)(void**, std::size_t bytes, unsigned flags);
  Result (*create_pool)(PoolHandle**, const PoolProperties*);
  Result (*set_pool_attribute)(PoolHandle*, int attribute, void*);
  Result (*trim_pool)(PoolHandle*, std::size_t bytes_to_keep);
  Result (*allocate_from_pool)(Pointer*, std::size_t bytes, PoolHandle*, StreamHandle*);
  Result (*free)(Pointer, StreamHandle*);
  Result (*copy)(Pointer to, Pointer from, std::size_t bytes, StreamHandle*);
  Result (*fill8)(Pointer, unsigned char, std::size_t n, StreamHandle*);
  Result (*fill16)(Pointer, unsigned short, std::size_t n, StreamHandle*);
  Result (*fill32)(Pointer, unsigned, std::size_t n, StreamHandle*);
  Result (*create_stream)(StreamHandle**, unsigned flags);
  Result (*destroy_stream)(StreamHandle*);
  Result (*synchronize_stream)(StreamHandle*);
  Result (*stream_context)(StreamHandle*, ContextHandle**);
  Result (*capture_info)(StreamHandle*, int* status, std::uint64_t* id);
  Result (*exchange_capture_mode)(int* mode);
  Result (*wait_event)(StreamHandle*, EventHandle*, unsigned flags);
  Result (*create_event)(EventHandle**, unsigned flags);
  Result (*destroy_event)(EventHandle*);
  Result (*record_event)(EventHandle*, StreamHandle*);
  Result (*query_event)(EventHandle*);
  Result (*synchronize_event)(EventHandle*);
  Result (*elapsed)(float* milliseconds, EventHandle* from, EventHandle* to);
  Result (*load_module)(ModuleHandle**, const void* image);
  Result (*module_function)(FunctionHandle**, ModuleHandle*, const char* name);
  Result (*function_attribute)(int*, int attribute, FunctionHandle*);
  Result (*launch)(FunctionHandle*, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   StreamHandle*, void** parameters, void** extra);
};

// The driver, initialized; null where it is missing or finds no card, and then `why` says so.
const Driver* FindDriver(const char** why = nullptr);

}  // namespace anyop::cuda
