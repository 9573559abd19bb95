// SPDX-License-Identifier: Apache-2.0
// Where a tensor of a test lies: guarded, with known bytes in its gaps, in the layouts that kernels
// must take.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "optest/array.h"
#include "platform/guarded_memory.h"

namespace anyop::optest {

enum class Layout : std::uint8_t {
  kDense,       // from the first byte of a page on, no strides stated; the page before is closed
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

// What fills gaps, results and the bytes around tensors before a run: NaN in every float dtype, -1
// in integers.
inline constexpr unsigned char kGuard = 0xff;
// What a second run finds there instead, so that what depends on it shows.
inline constexpr unsigned char kOtherPoison = 0x5a;

// What was done to memory that must be left alone.
struct Trespass {
  enum Kind : std::uint8_t { kNone, kElement, kGap, kWrite, kRead } kind = kNone;
  std::string
      where;  // "element [0, 3]", "byte 20 from its beginning", "element 1 after its end (byte 4)"
};

// Whole pages of memory.
struct Pages {
  unsigned char* begin = nullptr;
  std::size_t bytes = 0;
};

// What is wrong with a kernel.
struct Defect {
  std::string kind;  // the same for what one report tells, whatever the call is
  std::string text;  // a sentence or two; "": nothing is wrong
  explicit operator bool() const { return !text.empty(); }
};
// The defect of a trespass; memory: "result y, f32[2, 3]". advice: on what to do about it.
Defect DefectOf(const Trespass& trespass, const std::string& memory, const std::string& kind,
                const std::string& advice);

class Memory {
 public:
  // A copy of `values`.
  Memory(const Array& values, Layout layout);
  // A result: elements filled with the byte `poison`.
  Memory(DType dtype, const std::vector<std::int64_t>& shape, Layout layout, unsigned char poison);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  const DLTensor& tensor() const { return tensor_; }
  Array Read() const;
  // The pages that it shares with nothing: only Layout::kPageEnd has some.
  Pages pages() const;
  // From the first byte of an element to the last one.
  const void* begin() const { return first_; }
  std::size_t bytes() const { return std::size_t(span_bytes_); }
  // Whether bytes other than the elements have changed since construction, or were read outside of
  // all; with `elements_too` whether elements have.
  Trespass FindTrespass(bool elements_too) const;

 private:
  void Place(DType dtype, const std::vector<std::int64_t>& shape, Layout layout,
             const std::vector<bool>& repeated = {});
  void Reserve(std::int64_t data_bytes, std::int64_t element_bytes, Layout layout);
  std::int64_t ByteOf(std::int64_t element) const;   // from first_
  std::string OutsideText(std::ptrdiff_t at) const;  // of a byte, from first_
  // Calls f(element) for the first element of each run; all others follow one of these.
  template <class F>
  void ForRuns(F&& f) const {
    for (std::int64_t i = 0; i < size_; i += run_) f(i);
  }
  std::size_t run_bytes() const { return std::size_t(run_ * Bytes(tensor_.dtype)); }

  std::vector<std::int64_t> shape_, strides_;
  std::int64_t size_ = 0, span_bytes_ = 0;  // elements; from the first to the last of their bytes
  std::int64_t run_ = 1;                    // elements that lie one after another
  std::optional<GuardedMemory> guarded_;    // all of the memory
  unsigned char* block_ = nullptr;          // where that begins
  std::size_t block_bytes_ = 0;
  bool is_at_page_end_ = false;
  unsigned char* first_ = nullptr;  // the first element
  std::vector<unsigned char> before_;
  DLTensor tensor_{};
};

}  // namespace anyop::optest
