// SPDX-License-Identifier: Apache-2.0
// Rows of copies with checks, data included.
#include <algorithm>
#include <cstring>

#include "global.h"

namespace anyop_ascend {
namespace {

// The first byte of global memory from here on that means nothing, or `bytes`: all of an input
// means something, and what was written of an output.
std::uint64_t FirstUnwritten(Extent* extent, const unsigned char* at, std::uint64_t bytes) {
  if (!extent || extent->written.empty()) return bytes;
  const auto offset = static_cast<std::uint64_t>(at - extent->data);
  const Bits written = extent->written_bits();
  if (bytes && written.All(offset, bytes)) return bytes;
  std::uint64_t i = 0;
  while (i < bytes && (written.All(offset + i, 1) || at[i] != 0xFF)) ++i;
  return i;
}
void DefineCopied(const Instruction& by, const GlobalPart& part, const unsigned char* from,
                  unsigned char* to) {
  LocalMemory& local = *Current().local;
  for (std::uint64_t begin = 0; begin < part.bytes; ++begin) {
    const std::uint64_t count = FirstUnwritten(part.extent, from + begin, part.bytes - begin);
    Define(to + begin, count, true);
    begin += count;
    if (begin == part.bytes) return;
    Define(to + begin, 1, false);
    local.SetOrigin(Current().OffsetOf(to + begin), 1, by.place);
  }
}
// An atomic copy reads what it adds to.
void CheckAdded(const void* to, std::uint64_t bytes, Site at) {
  Extent* extent = FindExtent(to);
  if (!extent) return;
  const unsigned char* end = static_cast<const unsigned char*>(to) + bytes;
  const unsigned char* first = std::max(static_cast<const unsigned char*>(to),
                                        static_cast<const unsigned char*>(extent->data));
  end = std::min<const unsigned char*>(end, extent->data + extent->bytes);
  if (first >= end) return;
  first += FirstUnwritten(extent, first, static_cast<std::uint64_t>(end - first));
  if (first == end) return;
  Report("undefined-read", at,
         "the atomic copy adds to byte %lld of '%s', which nothing has written. Try to fill '%s' "
         "with zeros first, and SyncAll",
         static_cast<long long>(first - extent->data), extent->name.c_str(), extent->name.c_str());
}

void CopyOrigins(const Instruction& by, std::uint32_t to, std::uint32_t from, std::uint64_t bytes) {
  LocalMemory& local = *Current().local;
  for (std::uint64_t i = 0; i < bytes; i += kGranule) {
    const auto step = static_cast<std::uint32_t>(i);
    const std::uint32_t origin = local.OriginOf(from + step);
    local.SetOrigin(to + step, std::min<std::uint64_t>(kGranule, bytes - i),
                    origin ? origin : by.place);
  }
}

}  // namespace

void Poison(void* at, std::uint64_t bytes) {
  if (!bytes) return;
  std::memset(at, 0xFF, bytes);  // NaN in every float format, -1 in integers
  Define(at, bytes, false);
  CheckedBlock& b = Current();
  b.local->SetOrigin(b.OffsetOf(at), bytes, 0);
}

void CopyIn(const Instruction& by, const Span& to, std::int64_t offset, const void* from,
            std::uint64_t bytes, Site at) {
  if (!bytes || !CheckSpan(to, offset, bytes, 1, at)) return;
  NextMoment();
  const GlobalPart part = TouchGlobal(by, kRead, from, bytes, at);
  unsigned char* row = to.at + offset;
  Touch(by, kWrite, row, bytes);
  if (!part.is_whole) {  // what lies outside is anything
    Poison(row, bytes);
    Current().local->SetOrigin(Current().OffsetOf(row), bytes, by.place);
  }
  if (!part.bytes) return;
  const auto* begin = static_cast<const unsigned char*>(from) + part.skip;
  std::memcpy(row + part.skip, begin, part.bytes);
  DefineCopied(by, part, begin, row + part.skip);
}

void CopyOut(const Instruction& by, void* to, const Span& from, std::int64_t offset,
             std::uint64_t bytes, Store store, Site at) {
  if (!bytes || !CheckSpan(from, offset, bytes, 1, at)) return;
  NextMoment();
  const unsigned char* row = from.at + offset;
  if (store) CheckAdded(to, bytes, at);
  const GlobalPart part = TouchGlobal(by, store ? kAtomic : kWrite, to, bytes, at);
  auto* begin = static_cast<unsigned char*>(to) + part.skip;
  Touch(by, kRead, row, bytes);
  if (!AreDefined(row, bytes)) {
    std::uint64_t first = 0;
    while (AreDefined(row + first, 1)) ++first;
    UndefinedRead("a copy to global memory", row + first, at);
  }
  if (!part.bytes) return;
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
  if (AreDefined(source, bytes)) {
    Define(row, bytes, true);
  } else {
    b.local->CopyMarks(b.OffsetOf(row), b.OffsetOf(source), bytes);
    CopyOrigins(by, b.OffsetOf(row), b.OffsetOf(source), bytes);
  }
  std::memmove(row, source, bytes);
}

bool PadRow(const Instruction& by, const Span& to, std::int64_t offset, std::uint64_t bytes,
            Site at) {
  if (!CheckSpan(to, offset, bytes, 1, at)) return false;
  Touch(by, kWrite, to.at + offset, bytes);
  Poison(to.at + offset, bytes);
  CheckedBlock& b = Current();  // what is neither data nor padding begins in the last 32 bytes
  const std::uint32_t end = b.OffsetOf(to.at + offset) + static_cast<std::uint32_t>(bytes);
  if (bytes) b.local->SetOrigin(end - 1, 1, by.place);
  return true;
}

}  // namespace anyop_ascend
