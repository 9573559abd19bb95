// SPDX-License-Identifier: Apache-2.0
// The kernels of device.cu for the fake driver: one thread of one block, compiled by the C++
// compiler. The library on the fake driver has no kernels of operators.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "devices/cuda/kernel_table.h"
#include "devices/cuda/testing/fake_driver.h"

#define __device__
#define __global__
#define __launch_bounds__(...)

namespace {

struct Three {
  unsigned x;
};
constexpr Three threadIdx{0}, blockIdx{0}, blockDim{1}, gridDim{1};
void __threadfence() {}
void __threadfence_system() {}
void __syncthreads() {}
unsigned atomicAdd(unsigned* at, unsigned n) { return std::exchange(*at, *at + n); }
unsigned long long atomicExch(unsigned long long* at, unsigned long long n) {
  return std::exchange(*at, n);
}
unsigned long long atomicMax(unsigned long long* at, unsigned long long n) {
  return std::exchange(*at, std::max(*at, n));
}

}  // namespace

#include "devices/cuda/device.cu"

namespace {

template <class Call, void (*kKernel)(Call)>
constexpr FakeKernel One(const char* name) {
  return {name, sizeof(Call), [](const void* call) { kKernel(*static_cast<const Call*>(call)); }};
}

}  // namespace

// Elsewhere its bytes are an image for cards.
extern "C" {
extern const FakeKernel anyop_cuda_image_device[];
const FakeKernel anyop_cuda_image_device[] = {One<CheckCall, check_indices>("check_indices"),
                                              One<CopyCall, pack_1>("pack_1"),
                                              One<CopyCall, pack_2>("pack_2"),
                                              One<CopyCall, pack_4>("pack_4"),
                                              One<CopyCall, pack_8>("pack_8"),
                                              One<CopyCall, unpack_1>("unpack_1"),
                                              One<CopyCall, unpack_2>("unpack_2"),
                                              One<CopyCall, unpack_4>("unpack_4"),
                                              One<CopyCall, unpack_8>("unpack_8"),
                                              One<FillCall, fill>("fill"),
                                              {nullptr, 0, nullptr}};
}

namespace anyop::cuda {

std::uint32_t KernelCount() { return 0; }
const anyop_device_kernel* const* Kernels() { return nullptr; }

}  // namespace anyop::cuda
