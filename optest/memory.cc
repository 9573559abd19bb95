// SPDX-License-Identifier: Apache-2.0
#include "optest/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace anyop::optest {
namespace {

constexpr std::int64_t kGuardBytes = 256, kAlignment = 64;

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

}  // namespace

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

Memory::~Memory() {
  if (mapped_bytes_) {
    munmap(pages().begin, mapped_bytes_);
  } else {
    std::free(block_);
  }
}

Pages Memory::pages() const {
  if (!mapped_bytes_) return {};
  const std::size_t bytes = mapped_bytes_ - std::size_t(sysconf(_SC_PAGESIZE));
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
  tensor_ = {first_ - offset,      {1, 0},        int(shape_.size()),
             ToDL(dtype),          shape_.data(), is_plain ? nullptr : strides_.data(),
             std::uint64_t(offset)};
}

void Memory::Reserve(std::int64_t data_bytes, std::int64_t element_bytes, Layout layout) {
  if (layout == Layout::kPageEnd) {
    const std::int64_t page = sysconf(_SC_PAGESIZE);
    const std::int64_t used = data_bytes + kGuardBytes;
    const std::int64_t pages = (used + page - 1) / page * page;
    void* p = mmap(nullptr, std::size_t(pages + page), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    unsigned char* end = static_cast<unsigned char*>(p) + pages;
    mprotect(end, std::size_t(page), PROT_NONE);
    mapped_bytes_ = std::size_t(pages + page);
    block_bytes_ = std::size_t(used);
    block_ = end - used;
    first_ = end - data_bytes;
  } else {
    const std::int64_t shift = layout == Layout::kMisaligned ? element_bytes : 0;
    const std::int64_t used =
        (data_bytes + shift + 2 * kGuardBytes + kAlignment) & ~(kAlignment - 1);
    block_ = static_cast<unsigned char*>(std::aligned_alloc(kAlignment, std::size_t(used)));
    if (!block_) throw std::bad_alloc();
    block_bytes_ = std::size_t(used);
    first_ = block_ + kGuardBytes + shift;
  }
  std::memset(block_, kGuard, block_bytes_);
}

std::int64_t Memory::ByteOf(std::int64_t element) const {
  std::int64_t offset = 0;
  for (std::size_t k = shape_.size(); k-- > 0;) {
    offset += element % shape_[k] * strides_[k];
    element /= shape_[k];
  }
  return offset * (tensor_.dtype.bits / 8);
}

Array Memory::Read() const {
  Array values(DType(FromDL(tensor_.dtype)), shape_);
  const std::int64_t element = tensor_.dtype.bits / 8;
  ForRuns([&](std::int64_t i) {
    std::memcpy(values.data<char>() + i * element, first_ + ByteOf(i), run_bytes());
  });
  return values;
}

std::string Memory::FindChange(bool elements_too) const {
  std::vector<unsigned char> expected = before_;
  const std::int64_t element = tensor_.dtype.bits / 8, begin = first_ - block_;
  std::int64_t changed = size_;
  ForRuns([&](std::int64_t i) {
    unsigned char* were = expected.data() + begin + ByteOf(i);
    const unsigned char* are = first_ + ByteOf(i);
    if (elements_too && changed == size_ && std::memcmp(were, are, run_bytes())) {
      changed = i + (std::mismatch(were, were + run_bytes(), are).first - were) / element;
    }
    std::memcpy(were, are, run_bytes());
  });
  if (changed < size_) return "element " + Array(DType::kBool, shape_).IndexText(changed);
  if (std::memcmp(expected.data(), block_, block_bytes_) == 0) return "";
  std::int64_t at = 0;
  while (expected[std::size_t(at)] == block_[at]) ++at;
  if (at < begin) return "byte " + std::to_string(begin - at) + " before the start";
  if (at < begin + span_bytes_) return "byte " + std::to_string(at - begin) + ", in a gap";
  return "byte " + std::to_string(at - begin - span_bytes_) + " after the end";
}

}  // namespace anyop::optest
