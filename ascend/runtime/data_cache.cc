// SPDX-License-Identifier: Apache-2.0
#include "data_cache.h"

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

}  // namespace

void CheckStale(CheckedBlock& reader, const Instruction& by, const GlobalRecord& write,
                const Extent& extent, std::uint64_t offset, std::uint32_t mask) {
  const bool is_own_scalar = write.block == reader.index && write.pipe == kS;
  const std::uint64_t line = LineOf(extent.data + offset);
  if (write.pipe == kS && !(is_own_scalar && by.pipe == kS)) {
    const auto& cache = BlockOf(write.block).cache;
    const auto cached = cache.find(line);
    const auto granule =
        reinterpret_cast<std::uintptr_t>(extent.data + offset / kGranule * kGranule);
    const std::uint64_t bytes = std::uint64_t{write.mask & mask} << granule % kCacheLine;
    if (cached != cache.end() && cached->second.dirty & bytes) {
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

void CleanCache(const void* data, bool whole_cache, Site at) {
  CheckedBlock& b = Current();
  b.place = PlaceOf(at);
  if (whole_cache) {
    b.cache.clear();
  } else {
    b.cache.erase(LineOf(data));
  }
}

}  // namespace anyop_ascend
