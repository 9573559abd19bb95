// SPDX-License-Identifier: Apache-2.0
#include "data_cache.h"

#include <algorithm>

namespace anyop_ascend {
namespace {

std::uint64_t LineOf(const void* at) { return reinterpret_cast<std::uintptr_t>(at) / kCacheLine; }

CheckedBlock& BlockOf(std::uint32_t index) {
  return *static_cast<CheckedBlock*>(launched->blocks[index]);
}

void ReportStale(const CheckedBlock& reader, const Instruction& by, const GlobalRecord& write,
                 const Extent& extent, std::uint64_t offset, bool is_dirty) {
  if (!IsNew("stale-read", by.place, write.place)) return;
  Finding found{.kind = "stale-read",
                .here = by.place,
                .there = write.place,
                .block = static_cast<int>(reader.index),
                .there_block = write.block,
                .text = "",
                .insert = ""};
  const std::string here = Shown(by.place), there = Shown(write.place);
  found.text = Format("block %u reads byte %llu of '%s' at %s, but ", reader.index,
                      static_cast<unsigned long long>(offset), extent.name.c_str(), here.c_str());
  if (is_dirty) {
    found.text += Format("what block %u wrote at %s still lies in that core's data cache",
                         unsigned{write.block}, there.c_str());
    found.insert = Format("DataCacheCleanAndInvalid after %s", there.c_str());
  } else {
    found.text +=
        Format("its data cache still holds what was there before the write at %s", there.c_str());
    found.insert = Format("DataCacheCleanAndInvalid before %s", here.c_str());
  }
  AddFinding(std::move(found));
}

// Whether bytes of a line that another block wrote lie in its cache, or may still do so when the
// reader comes: it cleaned them later than the reader knows.
bool IsHeld(const CheckedBlock& reader, const GlobalRecord& write, std::uint64_t line,
            std::uint64_t bytes) {
  const CheckedBlock& holder = BlockOf(write.block);
  const auto cached = holder.cache.find(line);
  if (cached != holder.cache.end() && cached->second.dirty & bytes) return true;
  const auto cleaned = holder.cleaned.find(line);
  if (write.block == reader.index || cleaned == holder.cleaned.end()) return false;
  const std::uint32_t known = reader.others.empty() ? 0 : reader.others[write.block * kPipes + kS];
  for (const CleanedBytes& part : cleaned->second)
    if (part.bytes & bytes && part.index > known) return true;
  return false;
}

// Whether some block has written through its cache: lines matter only then.
bool has_scalar_writes = false;

// A write of bytes [begin, end) of an extent, and what others wrote to the lines around them.
class LineWrite {
 public:
  LineWrite(CheckedBlock& writer, const Instruction& by, const Extent& extent, std::uint64_t begin,
            std::uint64_t end)
      : writer_(writer), by_(by), extent_(extent), begin_(begin), end_(end) {}

  void MeetAll() {
    const auto base = reinterpret_cast<std::uintptr_t>(extent_.data);
    const std::uint64_t low = (base + begin_) / kCacheLine * kCacheLine;
    const std::uint64_t high = (base + end_ + kCacheLine - 1) / kCacheLine * kCacheLine;
    const std::uint64_t first = low > base ? low - base : 0;
    const std::uint64_t stop = std::min(extent_.bytes, high - base);
    for (std::uint64_t at = first / kGranule * kGranule; at < stop; at += kGranule) {
      const GlobalGranule* granule = GranuleOf(extent_, at);
      if (!granule) return;
      EachWrite(*granule, [&](const GlobalRecord& record) {
        Meet(record, record.mask & MaskOf(at, first, stop), at);
      });
    }
  }

 private:
  // Of the 32 bytes at an offset, those that lie in a range.
  static std::uint32_t MaskOf(std::uint64_t at, std::uint64_t begin, std::uint64_t end) {
    const std::uint64_t low = std::max(at, begin), high = std::min(at + kGranule, end);
    if (low >= high) return 0;
    return static_cast<std::uint32_t>(((1ull << (high - low)) - 1) << (low - at));
  }
  void Meet(const GlobalRecord& record, std::uint32_t bytes, std::uint64_t at) {
    const bool is_own = record.block == writer_.index, is_scalar = record.pipe == kS;
    if (!bytes || (by_.pipe != kS && !is_scalar) || (by_.pipe == kS && is_own && is_scalar)) return;
    const std::uint32_t others = bytes & ~MaskOf(at, begin_, end_);
    if (!is_own && !IsBefore(record, writer_, by_)) {
      if (others) ReportShared(record, at + FirstOf(others));
    } else if (is_scalar && IsHeldAt(record, bytes, at)) {
      ReportHeld(record, at + FirstOf(bytes));
    } else if (by_.pipe == kS && others && IsOld(record, at)) {
      ReportOld(record, at + FirstOf(others));
    }
  }
  static std::uint64_t FirstOf(std::uint32_t mask) {
    return static_cast<std::uint64_t>(__builtin_ctz(mask));
  }
  bool IsHeldAt(const GlobalRecord& record, std::uint32_t bytes, std::uint64_t at) const {
    const auto shift = reinterpret_cast<std::uintptr_t>(extent_.data + at) % kCacheLine;
    return IsHeld(writer_, record, LineOf(extent_.data + at + FirstOf(bytes)),
                  std::uint64_t{bytes} << shift);
  }
  bool IsOld(const GlobalRecord& record, std::uint64_t at) const {
    const auto cached = writer_.cache.find(LineOf(extent_.data + at));
    return cached != writer_.cache.end() && cached->second.loaded < record.moment;
  }
  void ReportShared(const GlobalRecord& record, std::uint64_t offset) {
    Add(record, 0,
        Format("block %u writes byte %llu of '%s' at %s, and block %u byte %llu of the same %llu "
               "bytes at %s, and nothing orders the two: scalar writes go back to memory in whole "
               "lines of %llu bytes, so one can undo the other. Try lines of their own for each "
               "block, or DataCopyPad from local memory",
               writer_.index, static_cast<unsigned long long>(begin_), extent_.name.c_str(),
               Shown(by_.place).c_str(), unsigned{record.block},
               static_cast<unsigned long long>(offset), static_cast<unsigned long long>(kCacheLine),
               Shown(record.place).c_str(), static_cast<unsigned long long>(kCacheLine)),
        "");
  }
  void ReportHeld(const GlobalRecord& record, std::uint64_t offset) {
    const std::string there = Shown(record.place);
    Add(record, 1,
        Format("block %u writes byte %llu of '%s' at %s, but the line of byte %llu, which block %u "
               "wrote at %s, still lies in that core's data cache: when it goes back to memory, as "
               "a whole, this write is undone",
               writer_.index, static_cast<unsigned long long>(begin_), extent_.name.c_str(),
               Shown(by_.place).c_str(), static_cast<unsigned long long>(offset),
               unsigned{record.block}, there.c_str()),
        Format("DataCacheCleanAndInvalid after %s", there.c_str()));
  }
  void ReportOld(const GlobalRecord& record, std::uint64_t offset) {
    const std::string here = Shown(by_.place);
    Add(record, 2,
        Format("block %u writes byte %llu of '%s' at %s into a line of its data cache that is "
               "older than the write of byte %llu at %s: when the line goes back to memory, as a "
               "whole, that write is undone",
               writer_.index, static_cast<unsigned long long>(begin_), extent_.name.c_str(),
               here.c_str(), static_cast<unsigned long long>(offset), Shown(record.place).c_str()),
        Format("DataCacheCleanAndInvalid before %s", here.c_str()));
  }
  void Add(const GlobalRecord& record, int part, std::string text, std::string insert) {
    if (!IsNew("line-overwrite", by_.place, record.place, part)) return;
    AddFinding({.kind = "line-overwrite",
                .here = by_.place,
                .there = record.place,
                .block = static_cast<int>(writer_.index),
                .there_block = record.block,
                .text = std::move(text),
                .insert = std::move(insert)},
               part);
  }

  CheckedBlock& writer_;
  const Instruction& by_;
  const Extent& extent_;
  const std::uint64_t begin_, end_;
};

}  // namespace

void CheckLines(CheckedBlock& writer, const Instruction& by, Extent& extent, std::uint64_t begin,
                std::uint64_t end) {
  if (by.pipe == kS) has_scalar_writes = true;
  if (has_scalar_writes) LineWrite(writer, by, extent, begin, end).MeetAll();
}
void ForgetScalarWrites() { has_scalar_writes = false; }
void NoteDirtyLines(const CheckedBlock& ended) {
  for (const auto& [line, cached] : ended.cache) {
    if (!cached.dirty || !IsNew("dirty-cache", cached.place, 0)) continue;
    const std::string place = Shown(cached.place);
    AddFinding({.kind = "dirty-cache",
                .level = Level::kNote,
                .here = cached.place,
                .block = static_cast<int>(ended.index),
                .text = Format("what %s writes still lies in the core's data cache at the end of "
                               "the block. The end of a kernel is taken to write it back, but only "
                               "DataCacheCleanAndInvalid is documented to",
                               place.c_str()),
                .insert = Format("DataCacheCleanAndInvalid after %s", place.c_str())});
  }
}

void CheckStale(CheckedBlock& reader, const Instruction& by, const GlobalRecord& write,
                const Extent& extent, std::uint64_t offset, std::uint32_t mask) {
  const bool is_own_scalar = write.block == reader.index && write.pipe == kS;
  const std::uint64_t line = LineOf(extent.data + offset);
  if (write.pipe == kS && !(is_own_scalar && by.pipe == kS)) {
    const auto granule =
        reinterpret_cast<std::uintptr_t>(extent.data + offset / kGranule * kGranule);
    const std::uint64_t bytes = std::uint64_t{write.mask & mask} << granule % kCacheLine;
    if (IsHeld(reader, write, line, bytes)) {
      ReportStale(reader, by, write, extent, offset, true);
      return;
    }
  }
  if (by.pipe == kS && !is_own_scalar) {
    const auto cached = reader.cache.find(line);
    if (cached != reader.cache.end() && cached->second.loaded < write.moment) {
      ReportStale(reader, by, write, extent, offset, false);
    }
  }
}

bool ScalarReadGlobal(const void* data, std::uint32_t bytes, Site at) {
  CheckedBlock& b = Current();
  const Instruction by = Issue(kS, at);
  const GlobalPart part = TouchGlobal(by, kRead, data, bytes, at);
  if (!part.is_whole) return false;
  if (!part.extent) return true;
  if (!part.extent->written.empty()) {
    const auto offset = static_cast<const unsigned char*>(data) - part.extent->data;
    if (!part.extent->written_bits().All(static_cast<std::uint64_t>(offset), bytes) &&
        *static_cast<const unsigned char*>(data) == 0xFF) {
      Report("undefined-read", at, "GetValue uses byte %lld of '%s', which nothing has written",
             static_cast<long long>(offset), part.extent->name.c_str());
    }
  }
  // A line that is cached keeps its age.
  b.cache.try_emplace(LineOf(data), CachedLine{0, NextMoment(), by.place});
  return true;
}

bool ScalarWriteGlobal(const void* data, std::uint32_t bytes, Site at) {
  CheckedBlock& b = Current();
  const Instruction by = Issue(kS, at);
  NextMoment();
  const GlobalPart part = TouchGlobal(by, kWrite, data, bytes, at);
  if (!part.is_whole) return false;
  if (!part.extent) return true;
  CachedLine& line = b.cache[LineOf(data)];
  if (!line.loaded) line.loaded = NextMoment();
  const auto first = reinterpret_cast<std::uintptr_t>(data) % kCacheLine;
  line.dirty |= ((1ull << bytes) - 1) << first;
  line.place = by.place;
  return true;
}

namespace {

void Clean(CheckedBlock& b, std::uint64_t line, std::uint64_t dirty, std::uint32_t index) {
  if (!dirty) return;
  std::vector<CleanedBytes>& parts = b.cleaned[line];
  for (CleanedBytes& part : parts) part.bytes &= ~dirty;
  std::erase_if(parts, [](const CleanedBytes& part) { return !part.bytes; });
  parts.push_back({dirty, index});
}

}  // namespace

void CleanCache(const void* data, bool whole_cache, Site at) {
  CheckedBlock& b = Current();
  const Instruction by = Issue(kS, at);  // in an order with others, as stores are
  if (whole_cache) {
    for (const auto& [line, cached] : b.cache) Clean(b, line, cached.dirty, by.index);
    b.cache.clear();
  } else if (const auto cached = b.cache.find(LineOf(data)); cached != b.cache.end()) {
    Clean(b, cached->first, cached->second.dirty, by.index);
    b.cache.erase(cached);
  }
}

}  // namespace anyop_ascend
