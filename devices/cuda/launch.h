// SPDX-License-Identifier: Apache-2.0
// How a kernel of an operator starts what nvcc compiled. A file cuda.cu is compiled twice: by nvcc,
// for the cards, into an image; and by the C++ compiler, which gets the kernel's record and the
// function that launches the image's functions.
#pragma once
#include <atomic>
#include <cstdint>

#include "anyop/device.h"
#include "anyop/op.h"

// The image of the file that is compiled, which the build names.
#ifdef ANYOP_CUDA_IMAGE
extern "C" const unsigned char ANYOP_CUDA_IMAGE[];
#endif

namespace anyop::cuda {

// anyop_device_kernel in C++ clothes. A line `extern constinit const DeviceKernel NAME{` puts it
// into the library's table.
struct DeviceKernel {
  std::uint32_t size = sizeof(DeviceKernel);
  std::int32_t stops = false;
  const char* op = "";
  const Kernel* kernel = nullptr;
  const char** signature = nullptr;
};
static_assert(sizeof(DeviceKernel) == sizeof(anyop_device_kernel) &&
              offsetof(DeviceKernel, stops) == offsetof(anyop_device_kernel, stops) &&
              offsetof(DeviceKernel, op) == offsetof(anyop_device_kernel, op) &&
              offsetof(DeviceKernel, kernel) == offsetof(anyop_device_kernel, kernel));

inline constexpr int kMostCards = 32;

// A __global__ function of an image, loaded on a card when it is first launched there.
struct Function {
  const unsigned char* image;
  const char* name;
  mutable std::atomic<void*> on[kMostCards] = {};
};

struct Grid {
  std::int64_t blocks;  // 0: nothing is launched
  std::int64_t threads;
  std::int64_t threads_y = 1;
};

// The bytes are copied. Returns a code of the boundary; `why` then holds until the thread's next
// failure.
int LaunchBytes(int card, void* stream, const Function& function, Grid grid, const void* call,
                const char** why);

// Launches function(call) on the call's stream.
template <class Call>
int Launch(const Context& ctx, const Function& function, Grid grid, const Call& call) {
  const char* why = nullptr;
  const auto& run = *static_cast<const anyop_device_run*>(ctx.runtime);
  const int code = LaunchBytes(run.device, ctx.stream, function, grid, &call, &why);
  return code == ANYOP_OK ? code : ctx.host->set_error(&ctx, code, why);
}

// What a kernel that says `stops` looks at.
inline const std::uint32_t* FailedWord(const Context& ctx) {
  return static_cast<const anyop_device_run*>(ctx.runtime)->failed;
}

}  // namespace anyop::cuda
