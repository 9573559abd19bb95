// SPDX-License-Identifier: Apache-2.0
#include "optest/memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "anyop/value.h"
#include "platform/crash.h"

namespace anyop::optest {
namespace {

// Strides in elements; the last one is 1.
std::vector<std::int64_t> Strides(const std::vector<std::int64_t>& shape, Layout layout,
                                  const std::vector<bool>& repeated) {
  const int rank = int(shape.size());
  std::vector<std::int64_t> strides(std::size_t(rank), 1);
  if (rank < 2) return strides;
  const std::int64_t d = shape.back();
  std::int64_t pitch = layout == Layout::kGapped ? d + 3 : layout == Layout::kPacked ? 3 * d : d;
  for (int i = 1; i < rank; ++i) {
    const int dim = layout == Layout::kTransposed ? i - 1 : rank - 1 - i;
    if (layout == Layout::kExpanded && std::size_t(dim) < repeated.size() &&
        repeated[std::size_t(dim)]) {
      strides[std::size_t(dim)] = 0;
      continue;
    }
    strides[std::size_t(dim)] = pitch;
    pitch *= shape[std::size_t(dim)];
    if (layout == Layout::kGapped && i == 1) pitch += 5;
  }
  return strides;
}

void PrepareForTouches() {
  static const bool is_prepared = [] {
    WatchCrashes();
    KeepGuardedMappings();
    return true;
  }();
  static_cast<void>(is_prepared);
}

}  // namespace

Defect DefectOf(const Trespass& trespass, const std::string& memory, const std::string& kind,
                const std::string& advice) {
  if (trespass.kind == Trespass::kNone) return {};
  constexpr const char* kDoes[] = {"", "writes into ", "writes between the rows of ",
                                   "writes outside of ", "reads outside of "};
  const std::string does = kDoes[trespass.kind];
  const char* const verb = trespass.kind == Trespass::kRead ? " is read. " : " has changed. ";
  return {does + kind, "it " + does + memory + ": " + trespass.where + verb + advice};
}

Memory::Memory(const Array& values, Layout layout) {
  const bool is_expanded = layout == Layout::kExpanded;
  Place(values.dtype(), values.shape(), layout,
        is_expanded ? RepeatedDims(values) : std::vector<bool>());
  const std::int64_t element = Bytes(values.dtype());
  ForRuns([&](std::int64_t i) {
    std::memcpy(first_ + ByteOf(i), values.data<char>() + i * element, run_bytes());
  });
  before_.assign(block_, block_ + block_bytes_);
}

Memory::Memory(DType dtype, const std::vector<std::int64_t>& shape, Layout layout,
               unsigned char poison) {
  Place(dtype, shape, layout);
  ForRuns([&](std::int64_t i) { std::memset(first_ + ByteOf(i), poison, run_bytes()); });
  before_.assign(block_, block_ + block_bytes_);
}

Pages Memory::pages() const {
  if (!is_at_page_end_) return {};
  const std::size_t page = std::size_t(sysconf(_SC_PAGESIZE));
  const std::size_t bytes = (block_bytes_ + page - 1) / page * page;
  return {block_ + block_bytes_ - bytes, bytes};
}

void Memory::Place(DType dtype, const std::vector<std::int64_t>& shape, Layout layout,
                   const std::vector<bool>& repeated) {
  shape_ = shape;
  strides_ = Strides(shape, layout, repeated);
  size_ = 1;
  for (const std::int64_t n : shape) size_ *= n;
  const std::int64_t element = Bytes(dtype);
  run_ = 1;
  for (std::size_t i = shape.size(); i-- > 0 && strides_[i] == run_;) run_ *= shape[i];
  std::int64_t last = 0;
  for (std::size_t i = 0; size_ > 0 && i < shape.size(); ++i) last += (shape[i] - 1) * strides_[i];
  span_bytes_ = size_ > 0 ? (last + 1) * element : 0;
  Reserve(span_bytes_, element, layout);
  const bool is_plain = layout == Layout::kDense;
  const std::int64_t offset = layout == Layout::kMisaligned ? element : 0;
  FillTensor(&tensor_, first_ - offset, kHostDevice, ToDL(dtype), int(shape_.size()), shape_.data(),
             is_plain ? nullptr : strides_.data());
  tensor_.byte_offset = std::uint64_t(offset);
}

void Memory::Reserve(std::int64_t data_bytes, std::int64_t element_bytes, Layout layout) {
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  const std::int64_t shift = layout == Layout::kMisaligned ? element_bytes : 0;
  is_at_page_end_ = layout == Layout::kPageEnd;
  const std::int64_t used =
      is_at_page_end_ ? data_bytes : (data_bytes + shift + page - 1) / page * page;
  PrepareForTouches();
  guarded_.emplace(std::size_t(used), 1, kGuard, kGuard);
  block_ = reinterpret_cast<unsigned char*>(guarded_->begin());
  block_bytes_ = std::size_t(used);
  first_ = block_ + shift;
}

std::int64_t Memory::ByteOf(std::int64_t element) const {
  std::int64_t offset = 0;
  for (std::size_t k = shape_.size(); k-- > 0;) {
    offset += element % shape_[k] * strides_[k];
    element /= shape_[k];
  }
  return offset * Bytes(tensor_.dtype);
}

Array Memory::Read() const {
  Array values(DType(FromDL(tensor_.dtype)), shape_);
  const std::int64_t element = Bytes(tensor_.dtype);
  ForRuns([&](std::int64_t i) {
    std::memcpy(values.data<char>() + i * element, first_ + ByteOf(i), run_bytes());
  });
  return values;
}

std::string Memory::OutsideText(std::ptrdiff_t at) const {
  const std::int64_t element = Bytes(tensor_.dtype);
  const bool is_before = at < 0;
  const std::int64_t byte = is_before ? -at : at - span_bytes_ + 1;
  const std::string side = is_before ? " before its beginning" : " after its end";
  if (element == 1) return "byte " + std::to_string(byte) + side;
  return "element " + std::to_string((byte + element - 1) / element) + side + " (byte " +
         std::to_string(byte) + ")";
}

Trespass Memory::FindTrespass(bool elements_too) const {
  std::vector<unsigned char> expected = before_;
  const std::int64_t element = Bytes(tensor_.dtype), begin = first_ - block_;
  std::int64_t changed = size_;
  ForRuns([&](std::int64_t i) {
    unsigned char* were = expected.data() + begin + ByteOf(i);
    const unsigned char* are = first_ + ByteOf(i);
    if (elements_too && changed == size_ && std::memcmp(were, are, run_bytes())) {
      changed = i + (std::mismatch(were, were + run_bytes(), are).first - were) / element;
    }
    std::memcpy(were, are, run_bytes());
  });
  if (changed < size_) {
    return {Trespass::kElement, "element " + Array(DType::kBool, shape_).IndexText(changed)};
  }
  std::ptrdiff_t at = 0;
  if (block_bytes_ && std::memcmp(expected.data(), block_, block_bytes_)) {
    while (expected[std::size_t(at)] == block_[at]) ++at;
    at -= begin;
    if (at >= 0 && at < span_bytes_) {
      return {Trespass::kGap, "byte " + std::to_string(at + 1) + " from its beginning"};
    }
    return {Trespass::kWrite, OutsideText(at)};
  }
  if (guarded_->FindChange(&at)) return {Trespass::kWrite, OutsideText(at - begin)};
  if (guarded_->FindTouch(&at)) return {Trespass::kRead, OutsideText(at - begin)};
  return {};
}

}  // namespace anyop::optest
