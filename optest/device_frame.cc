// SPDX-License-Identifier: Apache-2.0
#include "optest/device_frame.h"

#include <cstring>

#include "runtime/plan.h"

namespace anyop::optest {
namespace {

constexpr std::int64_t kAlignment = 64;  // of what a device allocates

unsigned char* FirstByte(const DLTensor& t) {
  return static_cast<unsigned char*>(t.data) + t.byte_offset;
}

// From the first element to the end of the last one.
std::int64_t SpanBytes(const DLTensor& t) {
  std::int64_t elements = 1, last = 0;
  for (int d = t.ndim - 1; d >= 0; --d) {
    last += (t.shape[d] - 1) * (t.strides ? t.strides[d] : elements);
    elements *= t.shape[d];
  }
  return elements ? (last + 1) * (t.dtype.bits / 8) : 0;
}

}  // namespace

DeviceFrame::DeviceFrame(const Operator& op, Frame* host, Device device)
    : op_(op),
      host_(*host),
      device_(device),
      values_(host->values(), host->values() + op.n_params + op.n_results) {
  for (int i = 0; i < op.n_params; ++i) {
    if (!(op.planned >> i & 1)) Move(i);  // what is planned stays where it is
  }
}

void DeviceFrame::AddResults(const Plan& plan, const Arrangement& arrangement) {
  for (int r = 0; r < plan.n_results; ++r) {
    const ResultShape& s = plan.results[r];
    host_.AddResult(r, s.dtype, {s.shape, s.shape + s.rank}, arrangement);
    values_[std::size_t(op_.n_params + r)] = host_.values()[op_.n_params + r];
    Move(op_.n_params + r);
  }
}

void DeviceFrame::BringBack() const {
  for (const Piece& piece : pieces_) {
    const anyop::Array here = piece.memory.On(Device());
    std::memcpy(piece.host, here.data<unsigned char>() + piece.at, std::size_t(piece.size));
  }
}

void DeviceFrame::Move(int index) {
  anyop_value& v = values_[std::size_t(index)];
  if (v.tag == ANYOP_TENSOR) v.t = Moved(*v.t);
  if (v.tag != ANYOP_TENSORS) return;
  auto& list = lists_.emplace_back();
  for (std::uint32_t k = 0; k < v.count; ++k) list.push_back(Moved(*v.ts[k]));
  v.ts = list.data();
}

const DLTensor* DeviceFrame::Moved(const DLTensor& host) {
  const Piece& piece = PieceOf(host);
  DLTensor& t = tensors_.emplace_back(host);
  t.device = device_.dl();
  t.data = piece.memory.data();
  t.byte_offset = std::uint64_t(piece.at);
  return &t;
}

// A result may be an argument's very memory.
const DeviceFrame::Piece& DeviceFrame::PieceOf(const DLTensor& host) {
  unsigned char* const first = FirstByte(host);
  const std::int64_t size = SpanBytes(host);
  for (const Piece& known : pieces_) {
    if (known.host == first && known.size == size && size > 0) return known;
  }
  const auto at = std::int64_t(reinterpret_cast<std::uintptr_t>(first) % kAlignment);
  const anyop::Array bytes = anyop::Array::Zeros({at + size}, DType::kU8);
  std::memcpy(bytes.data<unsigned char>() + at, first, std::size_t(size));
  return pieces_.emplace_back(Piece{first, bytes.On(device_), at, size});
}

}  // namespace anyop::optest
