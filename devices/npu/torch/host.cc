// SPDX-License-Identifier: Apache-2.0
// What devices/virtual/torch asks of the backend that owns the device: here it is torch_npu, which
// is asked through torch's interfaces alone.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <array>
#include <mutex>

#include "devices/virtual/torch/generator.h"
#include "devices/virtual/torch/memory.h"
#include "devices/virtual/torch/table.h"

namespace virtual_torch {
namespace {

c10::impl::VirtualGuardImpl Guard() { return c10::impl::VirtualGuardImpl(kType); }

// Two seeds that follow one another give streams that have nothing in common (SplitMix64).
std::uint64_t Mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

// ---- Streams.

c10::Device DeviceAt(c10::DeviceIndex index) {
  return index < 0 ? Guard().getDevice() : c10::Device(kType, index);
}
c10::Stream CurrentStream(c10::DeviceIndex index) { return Guard().getStream(DeviceAt(index)); }
// torch_npu has put all that was asked for before on its streams when it gives the handle.
anyop_stream Native(const c10::Stream& stream) { return Guard().getStreamNativeHandle(stream); }
anyop_stream CurrentNative(c10::DeviceIndex index) { return Native(CurrentStream(index)); }

void Synchronize(const c10::Stream& stream) {
  const anyop_stream native = Native(stream);
  Must(Table()->synchronize(stream.device_index(), native));
  Sweep(native);
  RaiseLate(stream.device_index(), native);
}

// ---- Memory.

// torch_npu knows the first byte of what is pinned, its library every byte.
bool IsPinned(const void* data) {
  using Ask = int (*)(const void* address, std::int32_t* attributes);
  static const auto ask = reinterpret_cast<Ask>(dlsym(RTLD_DEFAULT, "aclrtPointerGetAttributes"));
  constexpr std::int32_t kPinned = 0;
  std::array<std::int32_t, 4> attributes{};
  if (ask && ask(data, attributes.data()) == 0) return attributes[1] == kPinned;
  return at::detail::getPrivateUse1Hooks().isPinnedPtr(data);
}

void Resize(const at::Tensor& tensor, c10::IntArrayRef sizes,
            std::optional<at::MemoryFormat> format) {
  tensor.resize_(sizes, format);
}

// ---- Random numbers.

const at::Generator& DefaultGenerator(c10::DeviceIndex index) {
  return at::globalContext().defaultGenerator(DeviceAt(index));
}

// torch_npu's generator is a seed and an offset, which each piece of work moves on.
at::Generator ForWork(const at::Generator& given) {
  constexpr std::uint64_t kStep = 4;  // offsets are multiples of it
  at::Generator generator = given;
  TORCH_CHECK(generator.device().type() == kType, "Expected a '", Word(),
              "' device type for generator but found '", generator.device(), "'");
  const std::lock_guard lock(generator.mutex());
  const std::uint64_t offset = generator.get_offset();
  generator.set_offset(offset + kStep);
  return at::detail::createCPUGenerator(Mix(generator.current_seed() ^ Mix(offset)));
}

}  // namespace virtual_torch
