// SPDX-License-Identifier: Apache-2.0
#include "optest/device_frame.h"

#include <cstring>

#include "anyop/tensor.h"
#include "runtime/plan/frame.h"
#include "runtime/plan/plan.h"

namespace anyop::optest {
namespace {

constexpr std::int64_t kAlignment = 64;  // of what a device allocates
constexpr std::int64_t kZone = 64;       // bytes before and behind a tensor that nothing may write

unsigned char* FirstByte(const DLTensor& t) { return reinterpret_cast<unsigned char*>(BaseOf(t)); }

// From the first element to the end of the last one.
std::int64_t SpanBytes(const DLTensor& t) {
  std::int64_t elements = 1, last = 0;
  for (int d = t.ndim - 1; d >= 0; --d) {
    last += (t.shape[d] - 1) * (t.strides ? t.strides[d] : elements);
    elements *= t.shape[d];
  }
  return elements ? (last + 1) * Bytes(t.dtype) : 0;
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

Defect DeviceFrame::BringBack() const {
  Defect defect;
  for (const Piece& piece : pieces_) {
    const anyop::Array here = piece.memory.On(Device());
    const unsigned char* const bytes = here.data<unsigned char>();
    std::memcpy(piece.host, bytes + piece.at, std::size_t(piece.size));
    for (std::int64_t i = 0; i < here.size() && !defect; ++i) {
      const std::int64_t behind = i - (piece.at + piece.size);
      if ((i >= piece.at && behind < 0) || bytes[i] == kGuard) continue;
      defect = {"outside " + piece.name,
                "byte " + std::to_string(behind < 0 ? piece.at - i : behind + 1) +
                    (behind < 0 ? " before the beginning of " : " after the end of ") + piece.name +
                    " is written, but nothing outside of the tensors may be"};
    }
  }
  return defect;
}

void DeviceFrame::Move(int index) {
  anyop_value& v = values_[std::size_t(index)];
  const std::string name(EntryName(op_, index));
  if (v.tag == ANYOP_TENSOR) v.t = Moved(*v.t, name);
  if (v.tag != ANYOP_TENSORS) return;
  auto& list = lists_.emplace_back();
  for (std::uint32_t k = 0; k < v.count; ++k) {
    list.push_back(Moved(*v.ts[k], name + "[" + std::to_string(k) + "]"));
  }
  v.ts = list.data();
}

const DLTensor* DeviceFrame::Moved(const DLTensor& host, const std::string& name) {
  const Piece& piece = PieceOf(host, name);
  DLTensor& t = tensors_.emplace_back(host);
  t.device = device_.dl();
  t.data = piece.memory.data();
  t.byte_offset = std::uint64_t(piece.at);
  return &t;
}

// A result may be an argument's very memory.
const DeviceFrame::Piece& DeviceFrame::PieceOf(const DLTensor& host, const std::string& name) {
  unsigned char* const first = FirstByte(host);
  const std::int64_t size = SpanBytes(host);
  for (const Piece& known : pieces_) {
    if (known.host == first && known.size == size && size > 0) return known;
  }
  // As far from a multiple of the alignment as on the host.
  const auto at = kZone + std::int64_t(reinterpret_cast<std::uintptr_t>(first) % kAlignment);
  const anyop::Array bytes = anyop::Array::Empty({at + size + kZone}, DType::kU8);
  std::memset(bytes.data<unsigned char>(), kGuard, std::size_t(bytes.size()));
  std::memcpy(bytes.data<unsigned char>() + at, first, std::size_t(size));
  return pieces_.emplace_back(Piece{first, name, bytes.On(device_), at, size});
}

}  // namespace anyop::optest
