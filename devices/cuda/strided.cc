// SPDX-License-Identifier: Apache-2.0
#include "devices/cuda/strided.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "anyop/tensor.h"
#include "devices/cuda/launch.h"

namespace anyop::cuda {
namespace {

constinit const Function kPack[] = {{anyop_cuda_image_device, "pack_1"},
                                    {anyop_cuda_image_device, "pack_2"},
                                    {anyop_cuda_image_device, "pack_4"},
                                    {anyop_cuda_image_device, "pack_8"}};
constinit const Function kUnpack[] = {{anyop_cuda_image_device, "unpack_1"},
                                      {anyop_cuda_image_device, "unpack_2"},
                                      {anyop_cuda_image_device, "unpack_4"},
                                      {anyop_cuda_image_device, "unpack_8"}};
constinit const Function kFill{anyop_cuda_image_device, "fill"};

constexpr std::int64_t kThreads = 256;

std::int64_t BlocksFor(const Card& card, std::int64_t n) {
  return std::min<std::int64_t>((n + kThreads - 1) / kThreads, 16 * card.cores);
}

void Start(const Card& card, StreamHandle* stream, const Function& function, std::int64_t n,
           const void* call) {
  const char* why = nullptr;
  const Grid grid{BlocksFor(card, n), kThreads};
  const int code = LaunchBytes(card.number, stream, function, grid, call, &why);
  if (code != ANYOP_OK) throw Failure{code, why};
}

void CopyStrided(StreamHandle* stream, const DLTensor& t, const Function (&functions)[4],
                 CopyCall call) {
  const Card& card = CardOf(t.device.device_id);
  call.of = StridedOf(t);
  const int bits = t.dtype.bits * t.dtype.lanes;
  for (int i = 0; i < 4; ++i) {
    if (bits == 8 << i) return Start(card, stream, functions[i], call.of.count, &call);
  }
  throw Failure{ANYOP_UNSUPPORTED, "elements of " + std::to_string(bits) + " bits."};
}

}  // namespace

Strided StridedOf(const DLTensor& t) {
  if (t.ndim > kMostDims) {
    throw Failure{ANYOP_UNSUPPORTED, "a tensor of " + std::to_string(t.ndim) +
                                         " dimensions, but at most 8 are supported."};
  }
  Strided to{};
  to.count = 1;
  std::int64_t dense = 1, strides[kMostDims];
  for (int d = t.ndim - 1; d >= 0; --d) {
    strides[d] = t.strides ? t.strides[d] : dense;
    dense *= t.shape[d];
    to.count *= t.shape[d];
  }
  for (int d = 0; d < t.ndim; ++d) {  // neighbours that are one dimension become one
    if (t.shape[d] == 1) continue;
    const int last = to.ndim - 1;
    if (last >= 0 && to.strides[last] == strides[d] * t.shape[d]) {
      to.shape[last] *= t.shape[d];
      to.strides[last] = strides[d];
    } else {
      to.shape[to.ndim] = t.shape[d];
      to.strides[to.ndim++] = strides[d];
    }
  }
  to.is_contiguous = to.ndim == 0 || (to.ndim == 1 && to.strides[0] == 1);
  return to;
}

void Pack(StreamHandle* stream, const DLTensor& from, void* to) {
  const char* data = BaseOf(from);
  CopyStrided(stream, from, kPack, CopyCall{.of = {}, .from = data, .to = to});
}
void Unpack(StreamHandle* stream, const void* from, const DLTensor& to) {
  char* data = BaseOf(to);
  CopyStrided(stream, to, kUnpack, CopyCall{.of = {}, .from = from, .to = data});
}

void Fill(StreamHandle* stream, void* to, std::uint64_t count, const void* item,
          std::uint64_t item_bytes) {
  FillCall call{static_cast<unsigned char*>(to), count * item_bytes, std::uint32_t(item_bytes), {}};
  if (item_bytes == 0 || item_bytes > sizeof call.item) {
    throw Failure{ANYOP_UNSUPPORTED,
                  "items of " + std::to_string(item_bytes) + " bytes, but fill takes 1 to 64."};
  }
  std::memcpy(call.item, item, item_bytes);
  const Card& card = CardOf(stream);
  const OnCard on(card);
  const Driver& driver = TheDriver();
  const auto at = Pointer(reinterpret_cast<std::uintptr_t>(to));
  std::uint16_t two = 0;
  std::uint32_t four = 0;
  switch (count == 0 ? 0 : item_bytes) {
    case 0:
      return;
    case 1:
      return Must(driver.fill8(at, call.item[0], count, stream), "cuMemsetD8Async");
    case 2:
      std::memcpy(&two, item, 2);
      return Must(driver.fill16(at, two, count, stream), "cuMemsetD16Async");
    case 4:
      std::memcpy(&four, item, 4);
      return Must(driver.fill32(at, four, count, stream), "cuMemsetD32Async");
    default:
      return Start(card, stream, kFill, std::int64_t(call.bytes), &call);
  }
}

}  // namespace anyop::cuda
