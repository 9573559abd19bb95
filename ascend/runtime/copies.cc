// SPDX-License-Identifier: Apache-2.0
// Rows of copies with checks, data included.
#include <cstring>

#include "global.h"

namespace anyop_ascend {
namespace {

// Whether bytes from global memory mean something: all of an input; what was written of an output.
void DefineFrom(const GlobalPart& part, const unsigned char* from, unsigned char* to) {
  if (!part.extent || part.extent->written.empty()) {
    Define(to, part.bytes, true);
    return;
  }
  const auto offset = static_cast<std::uint64_t>(from - part.extent->data);
  for (std::uint64_t i = 0; i < part.bytes; ++i)
    Define(to + i, 1, part.extent->written_bits().All(offset + i, 1) || from[i] != 0xFF);
}

}  // namespace

void Poison(void* at, std::uint64_t bytes) {
  if (!bytes) return;
  std::memset(at, 0xFF, bytes);  // NaN in every float format, -1 in integers
  Define(at, bytes, false);
}

void CopyIn(const Instruction& by, const Span& to, std::int64_t offset, const void* from,
            std::uint64_t bytes, Site at) {
  if (!bytes || !CheckSpan(to, offset, bytes, 1, at)) return;
  NextMoment();
  const GlobalPart part = TouchGlobal(by, kRead, from, bytes, at);
  unsigned char* row = to.at + offset;
  Touch(by, kWrite, row, bytes);
  if (!part.is_whole) Poison(row, bytes);  // what lies outside is anything
  if (!part.bytes) return;
  const auto* begin = static_cast<const unsigned char*>(from) + part.skip;
  std::memcpy(row + part.skip, begin, part.bytes);
  DefineFrom(part, begin, row + part.skip);
}

void CopyOut(const Instruction& by, void* to, const Span& from, std::int64_t offset,
             std::uint64_t bytes, Store store, Site at) {
  if (!bytes || !CheckSpan(from, offset, bytes, 1, at)) return;
  NextMoment();
  const unsigned char* row = from.at + offset;
  const GlobalPart part = TouchGlobal(by, store ? kAtomic : kWrite, to, bytes, at);
  Touch(by, kRead, row, bytes);
  if (!AreDefined(row, bytes)) {
    std::uint64_t first = 0;
    while (AreDefined(row + first, 1)) ++first;
    UndefinedRead("a copy to global memory", row + first, at);
  }
  if (!part.bytes) return;
  auto* begin = static_cast<unsigned char*>(to) + part.skip;
  if (store) {
    store(begin, row + part.skip, part.bytes);
  } else {
    std::memcpy(begin, row + part.skip, part.bytes);
  }
}

void CopyLocal(const Instruction& by, const Span& to, std::int64_t to_offset, const Span& from,
               std::int64_t from_offset, std::uint64_t bytes, Site at) {
  if (!bytes || !CheckSpan(to, to_offset, bytes, 1, at) ||
      !CheckSpan(from, from_offset, bytes, 1, at)) {
    return;
  }
  CheckedBlock& b = Current();
  unsigned char* row = to.at + to_offset;
  const unsigned char* source = from.at + from_offset;
  Touch(by, kRead, source, bytes);
  Touch(by, kWrite, row, bytes);
  b.local->defined().Copy(b.OffsetOf(row), b.OffsetOf(source), bytes);
  std::memmove(row, source, bytes);
}

bool PadRow(const Instruction& by, const Span& to, std::int64_t offset, std::uint64_t bytes,
            Site at) {
  if (!CheckSpan(to, offset, bytes, 1, at)) return false;
  Touch(by, kWrite, to.at + offset, bytes);
  Poison(to.at + offset, bytes);
  return true;
}

}  // namespace anyop_ascend
