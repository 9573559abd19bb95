// SPDX-License-Identifier: Apache-2.0
// Where a tensor of a test lies: with guard zones around it and in its gaps, in the layouts that
// kernels must take.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "optest/array.h"

namespace anyop::optest {

enum class Layout : std::uint8_t {
  kDense,       // 64-byte aligned, no strides stated
  kMisaligned,  // one element beyond an aligned address, by byte_offset
  kGapped,      // rows further apart than they are long: a view of wider rows
  kPacked,      // the same, three rows apart: a slice of a packed qkv
  kTransposed,  // leading dimensions in the opposite order in memory
  kPageEnd,     // the last byte is the last of a page, and the next page cannot be touched
  kExpanded     // stride 0 along leading dimensions whose slices are all alike
};
inline constexpr int kLayouts = 7;
inline constexpr std::string_view kLayoutNames[kLayouts] = {
    "dense", "misaligned", "gapped", "packed", "transposed", "at the end of a page", "expanded"};

// What fills guard zones, gaps and results before a run: NaN in every float dtype, -1 in integers.
inline constexpr unsigned char kGuard = 0xff;

// Whole pages of memory.
struct Pages {
  unsigned char* begin = nullptr;
  std::size_t bytes = 0;
};

class Memory {
 public:
  // A copy of `values`.
  Memory(const Array& values, Layout layout);
  // A result: elements filled with the byte `poison`.
  Memory(DType dtype, const std::vector<std::int64_t>& shape, Layout layout, unsigned char poison);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  const DLTensor& tensor() const { return tensor_; }
  Array Read() const;
  // The pages that it shares with nothing: only Layout::kPageEnd has some.
  Pages pages() const;
  // Whether bytes other than the elements have changed since construction; with `elements_too`
  // those as well. "" if not, else where: "byte 4 after the end", "element [0, 3]", "a gap".
  std::string FindChange(bool elements_too) const;

 private:
  void Place(DType dtype, const std::vector<std::int64_t>& shape, Layout layout,
             const std::vector<bool>& repeated = {});
  void Reserve(std::int64_t data_bytes, std::int64_t element_bytes, Layout layout);
  std::int64_t ByteOf(std::int64_t element) const;  // from first_
  // Calls f(element) for the first element of each run; all others follow one of these.
  template <class F>
  void ForRuns(F&& f) const {
    for (std::int64_t i = 0; i < size_; i += run_) f(i);
  }
  std::size_t run_bytes() const { return std::size_t(run_ * tensor_.dtype.bits / 8); }

  std::vector<std::int64_t> shape_, strides_;
  std::int64_t size_ = 0, span_bytes_ = 0;  // elements; from the first to the last of their bytes
  std::int64_t run_ = 1;                    // elements that lie one after another
  unsigned char* block_ = nullptr;          // all of the memory
  std::size_t block_bytes_ = 0, mapped_bytes_ = 0;
  unsigned char* first_ = nullptr;  // the first element
  std::vector<unsigned char> before_;
  DLTensor tensor_{};
};

}  // namespace anyop::optest
