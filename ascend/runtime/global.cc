// SPDX-License-Identifier: Apache-2.0
#include "global.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "anyop_ascend/kernel_table.h"
#include "data_cache.h"

namespace anyop_ascend {
namespace {

constexpr std::uint64_t kNear = 4096;    // bytes around an extent that still are about it
constexpr std::uint64_t kOverRead = 64;  // reads so far behind an end are notes
struct SplitCell {
  GlobalGranule granules[kGlobalCell / kGranule];
};

std::vector<std::unique_ptr<Extent>> extents;  // by address
std::vector<std::pair<const unsigned char*, std::uint64_t>> open_parts;
std::deque<std::unique_ptr<SplitCell>> split_cells;
std::size_t splits_used = 0;
std::deque<OtherRecords> other_records;
std::size_t others_used = 0;
std::uint32_t moment = 0;
bool has_failed = false;
bool has_run = false;

OtherRecords& WithOthers(GlobalGranule& granule) {
  if (granule.others) return OthersOf(granule);
  if (others_used == other_records.size()) other_records.emplace_back();
  granule.others = static_cast<std::uint32_t>(++others_used);
  OtherRecords& others = OthersOf(granule);
  others.writes.clear();
  others.reads.clear();
  return others;
}

GlobalGranule* GranulesOf(GlobalCell& cell) {
  if (cell.split) return split_cells[cell.split - 1]->granules;
  if (splits_used == split_cells.size()) {
    split_cells.push_back(std::make_unique<SplitCell>());
  }
  cell.split = static_cast<std::uint32_t>(++splits_used);
  GlobalGranule* granules = split_cells[cell.split - 1]->granules;
  std::fill_n(granules, kGlobalCell / kGranule, cell.whole);
  if (cell.whole.others) {
    for (std::uint32_t i = 0; i < kGlobalCell / kGranule; ++i) {
      granules[i].others = 0;
      WithOthers(granules[i]) = OthersOf(cell.whole);
    }
  }
  return granules;
}

class GlobalAccess {
 public:
  GlobalAccess(CheckedBlock& b, const Instruction& by, Access access, Extent& extent)
      : block_(b),
        by_(by),
        access_(access),
        extent_(extent),
        is_written_(extent.access & (ANYOP_ASCEND_WRITE | ANYOP_ASCEND_WHOLE)) {}

  void Do(GlobalGranule& granule, std::uint32_t mask, std::uint64_t offset) {
    EachWrite(granule, [&](const GlobalRecord& record) {
      if (record.mask & mask) MeetWrite(record, mask, offset);
    });
    if (access_ == kRead) {
      if (is_written_) Record(granule, granule.reads, 3, mask);
      return;
    }
    for (GlobalRecord& record : granule.reads) EndRead(record, mask, offset);
    for (GlobalRecord& record : granule.writes) record.mask &= ~mask;
    if (granule.others) EndOthers(OthersOf(granule), mask, offset);
    Record(granule, granule.writes, 2, mask);
  }

 private:
  void EndRead(GlobalRecord& record, std::uint32_t mask, std::uint64_t offset) {
    if (record.mask & mask) MeetRead(record, offset);
    record.mask &= ~mask;
  }
  void EndOthers(OtherRecords& others, std::uint32_t mask, std::uint64_t offset) {
    for (GlobalRecord& record : others.reads) EndRead(record, mask, offset);
    for (GlobalRecord& record : others.writes) record.mask &= ~mask;
    for (auto* records : {&others.reads, &others.writes})
      std::erase_if(*records, [](const GlobalRecord& record) { return !record.mask; });
  }
  bool IsOwn(const GlobalRecord& r) const { return r.block == block_.index && r.pipe == by_.pipe; }
  // True if the order is known or was inserted.
  bool Order(const GlobalRecord& r) {
    if (IsBefore(r, block_, by_)) return true;
    if (r.block != block_.index) return false;
    if (r.pipe == by_.pipe && (by_.pipe == kS || r.index == by_.index)) return true;
    if (options.is_strict || (by_.pipe != kS && r.pipe != kS)) return false;
    InsertOrder(block_, Pipe(r.pipe), r.index, by_.pipe);
    return true;
  }
  void MeetWrite(const GlobalRecord& r, std::uint32_t mask, std::uint64_t offset) {
    if (Order(r)) {
      if (access_ == kRead) CheckStale(block_, by_, r, extent_, offset, mask);
      return;
    }
    if (access_ == kAtomic && r.is_atomic) return;
    // Writes of one pipe retire in order.
    if (access_ != kRead && IsOwn(r)) return;
    Race(r, kWrite, offset);
  }
  void MeetRead(const GlobalRecord& r, std::uint64_t offset) {
    if (Order(r) || (r.block == block_.index && r.pipe == by_.pipe)) return;
    Race(r, kRead, offset);
  }
  void Race(const GlobalRecord& r, Access other, std::uint64_t offset) {
    const std::string what =
        Format("byte %llu of '%s'", static_cast<unsigned long long>(offset), extent_.name.c_str());
    if (r.block == block_.index) {
      ReportRace("gm-race", by_, access_, Pipe(r.pipe), other, r.place, what);
      return;
    }
    if (!IsNew("gm-block-race", by_.place, r.place, access_ == kRead)) return;
    const char* does = access_ == kRead ? "reads" : access_ == kAtomic ? "adds to" : "writes";
    AddFinding({.kind = "gm-block-race",
                .here = by_.place,
                .there = r.place,
                .block = static_cast<int>(block_.index),
                .there_block = r.block,
                .text = Format("block %u %s %s at %s, and nothing orders this after the %s by "
                               "block %u at %s: their parts overlap. If that is not meant, look "
                               "at offsets and lengths",
                               block_.index, does, what.c_str(), Shown(by_.place).c_str(),
                               other == kRead ? "read" : "write", unsigned{r.block},
                               Shown(r.place).c_str()),
                .insert = Mended(r, other)},
               access_ == kRead);
  }
  // What may stand between the accesses of two blocks.
  std::string Mended(const GlobalRecord& r, Access other) const {
    const std::string there = Shown(r.place), here = Shown(by_.place);
    if (access_ == kRead || other == kRead)
      return Format("SyncAll() between %s and %s", there.c_str(), here.c_str());
    if (here == there) return Format("SetAtomicAdd before %s, where blocks add up", here.c_str());
    return Format("SyncAll() between %s and %s, or SetAtomicAdd where both add", there.c_str(),
                  here.c_str());
  }
  // One record stands for several accesses, with the newest index, so what is complete stays apart:
  // other blocks may know it.
  bool TakesOver(const GlobalRecord& r) const {
    return r.mask && IsOwn(r) && r.index > block_.known[by_.pipe].of[by_.pipe];
  }
  // What comes after this access comes after such a record as well.
  bool IsPast(const GlobalRecord& r, std::uint32_t mask) const {
    return !(r.mask & ~mask) && IsBefore(r, block_, by_);
  }
  void Record(GlobalGranule& granule, GlobalRecord* records, int count, std::uint32_t mask) {
    GlobalRecord* slot = nullptr;
    auto* others = !granule.others    ? nullptr
                   : access_ == kRead ? &OthersOf(granule).reads
                                      : &OthersOf(granule).writes;
    const auto find = [&](const auto& fits) {
      for (int i = 0; i < count && !slot; ++i)
        if (fits(records[i])) slot = &records[i];
      if (!others) return;
      for (std::size_t i = 0; i < others->size() && !slot; ++i)
        if (fits((*others)[i])) slot = &(*others)[i];
    };
    find([&](const GlobalRecord& r) { return TakesOver(r); });
    const std::uint32_t kept = slot ? slot->mask : 0;
    find([](const GlobalRecord& r) { return !r.mask; });
    find([&](const GlobalRecord& r) { return IsPast(r, mask); });
    if (!slot) {
      OtherRecords& more = WithOthers(granule);
      slot = &(access_ == kRead ? more.reads : more.writes).emplace_back();
    }
    *slot = {
        mask | kept, by_.index,         by_.place, moment, static_cast<std::uint16_t>(block_.index),
        by_.pipe,    access_ == kAtomic};
  }

  CheckedBlock& block_;
  const Instruction& by_;
  const Access access_;
  Extent& extent_;
  const bool is_written_;  // by somebody: else no read can be in a race
};

void TouchCells(GlobalAccess& access, Extent& extent, std::uint64_t begin, std::uint64_t end,
                bool is_plain_write) {
  if (extent.cells.empty()) extent.cells.resize(extent.bytes / kGlobalCell + 1);
  extent.first_used = std::min(extent.first_used, begin / kGlobalCell);
  extent.last_used = std::max(extent.last_used, (end - 1) / kGlobalCell);
  while (begin < end) {
    GlobalCell& cell = extent.cells[begin / kGlobalCell];
    const std::uint64_t next = std::min(end, (begin / kGlobalCell + 1) * kGlobalCell);
    const bool is_whole = next - begin == kGlobalCell;
    if (is_whole && !cell.split) {
      access.Do(cell.whole, ~0u, begin);
    } else {
      GlobalGranule* granules = GranulesOf(cell);
      for (std::uint64_t at = begin; at < next;) {
        const std::uint64_t low = at % kGranule, stop = std::min(next, at - low + kGranule);
        const std::uint64_t bytes = stop - at;
        const std::uint32_t mask =
            bytes == kGranule ? ~0u : ((1u << bytes) - 1) << static_cast<unsigned>(low);
        access.Do(granules[at % kGlobalCell / kGranule], mask, at);
        at = stop;
      }
      if (is_whole && is_plain_write) {
        cell.whole = granules[0];
        cell.split = 0;
      }
    }
    begin = next;
  }
}

bool IsOpen(const void* at) {
  const auto* byte = static_cast<const unsigned char*>(at);
  return std::any_of(open_parts.begin(), open_parts.end(), [&](const auto& part) {
    return byte >= part.first && std::uint64_t(byte - part.first) < part.second;
  });
}

void ReportOutside(Access access, const Extent& extent, std::int64_t offset, std::uint64_t bytes,
                   Site site) {
  const auto size = static_cast<std::int64_t>(extent.bytes);
  const auto end = offset + static_cast<std::int64_t>(bytes);
  const bool is_over_read = access == kRead && offset >= 0 && offset < size &&
                            end <= size + static_cast<std::int64_t>(kOverRead);
  const char* kind = is_over_read ? "gm-over-read" : "gm-out-of-bounds";
  const std::uint32_t here = PlaceOf(site);
  if (!IsNew(kind, here, 0)) return;
  AddFinding({.kind = kind,
              .level = is_over_read ? Level::kNote : Level::kError,
              .here = here,
              .block = static_cast<int>(block->index),
              .text = Format("%s %s bytes %lld to %lld of '%s', which has %lld",
                             Shown(here).c_str(), access == kRead ? "reads" : "writes",
                             static_cast<long long>(offset), static_cast<long long>(end),
                             extent.name.c_str(), static_cast<long long>(size)),
              .insert = is_over_read ? "DataCopyPad of the bytes that are there" : ""});
}

}  // namespace

OtherRecords& OthersOf(const GlobalGranule& granule) { return other_records[granule.others - 1]; }
const GlobalGranule* GranuleOf(const Extent& extent, std::uint64_t offset) {
  if (extent.cells.empty()) return nullptr;
  const GlobalCell& cell = extent.cells[offset / kGlobalCell];
  if (!cell.split) return &cell.whole;
  return &split_cells[cell.split - 1]->granules[offset % kGlobalCell / kGranule];
}
bool IsBefore(const GlobalRecord& r, const CheckedBlock& b, const Instruction& by) {
  if (r.block == b.index) return r.index <= b.known[by.pipe].of[r.pipe];
  return !b.others.empty() && r.index <= b.others[r.block * kPipes + r.pipe];
}

std::uint32_t NextMoment() { return ++moment; }

Extent* FindExtent(const void* at) {
  if (extents.empty()) return nullptr;
  const auto* byte = static_cast<const unsigned char*>(at);
  const auto is_near = [&](const Extent& e) {
    return byte + kNear >= e.data && byte < e.data + e.bytes + kNear;
  };
  auto* b = block ? &Current() : nullptr;
  if (b && b->extent < extents.size()) {
    Extent& last = *extents[b->extent];
    if (byte >= last.data && byte < last.data + last.bytes) return &last;
  }
  const auto after = std::upper_bound(
      extents.begin(), extents.end(), byte,
      [](const unsigned char* p, const std::unique_ptr<Extent>& e) { return p < e->data; });
  if (after != extents.begin() && is_near(**(after - 1))) {
    if (b) b->extent = static_cast<std::uint32_t>(after - 1 - extents.begin());
    return (after - 1)->get();
  }
  return after != extents.end() && is_near(**after) ? after->get() : nullptr;
}

GlobalPart TouchGlobal(const Instruction& by, Access access, const void* at, std::uint64_t bytes,
                       Site site) {
  if (extents.empty() || !bytes || IsOpen(at)) return {0, bytes, nullptr, true};
  Extent* extent = FindExtent(at);
  if (!extent) {
    Report("gm-unknown-address", site, "%s %llu bytes at an address that belongs to no argument",
           access == kRead ? "reads" : "writes", static_cast<unsigned long long>(bytes));
    return {0, 0, nullptr, false};
  }
  const std::int64_t offset = static_cast<const unsigned char*>(at) - extent->data;
  const auto end = offset + static_cast<std::int64_t>(bytes);
  const auto size = static_cast<std::int64_t>(extent->bytes);
  const bool is_whole = offset >= 0 && end <= size;
  if (!is_whole) ReportOutside(access, *extent, offset, bytes, site);
  if (access != kRead && !(extent->access & (ANYOP_ASCEND_WRITE | ANYOP_ASCEND_WHOLE))) {
    Report("gm-write-to-input", site, "writes to '%s', which is an input", extent->name.c_str());
  }
  const std::int64_t begin = std::max<std::int64_t>(offset, 0), stop = std::min(end, size);
  if (begin >= stop) return {0, 0, extent, false};
  if (access != kRead) {
    CheckLines(Current(), by, *extent, static_cast<std::uint64_t>(begin),
               static_cast<std::uint64_t>(stop));
  }
  GlobalAccess touched(Current(), by, access, *extent);
  TouchCells(touched, *extent, static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(stop),
             access == kWrite);
  if (access != kRead && !extent->written.empty()) {
    extent->written_bits().Set(static_cast<std::uint64_t>(begin),
                               static_cast<std::uint64_t>(stop - begin), true);
  }
  return {static_cast<std::uint64_t>(begin - offset), static_cast<std::uint64_t>(stop - begin),
          extent, is_whole};
}

std::uint64_t CheckTiling(const char* type, const void* data, std::uint64_t bytes, Site at) {
  const Extent* extent = FindExtent(data);
  if (!extent || extent->data != data || extent->bytes == bytes) return bytes;
  Report("tiling-size", at,
         "the struct %s has %llu bytes, but '%s', which is read as one, has %llu", type,
         static_cast<unsigned long long>(bytes), extent->name.c_str(),
         static_cast<unsigned long long>(extent->bytes));
  return std::min(bytes, extent->bytes);
}

void DeclareExtent(void* data, std::uint64_t bytes, const char* name, std::uint32_t access) {
  auto extent = std::make_unique<Extent>();
  extent->data = static_cast<unsigned char*>(data);
  extent->bytes = bytes;
  extent->name = name ? name : "";
  extent->access = access;
  if (!(access & ANYOP_ASCEND_READ)) extent->written.resize(bytes / 64 + 1);
  const auto after =
      std::upper_bound(extents.begin(), extents.end(), extent,
                       [](const std::unique_ptr<Extent>& a, const std::unique_ptr<Extent>& b) {
                         return a->data < b->data;
                       });
  if (after != extents.begin() && (*(after - 1))->data == data) {
    *(after - 1) = std::move(extent);
    return;
  }
  extents.insert(after, std::move(extent));
}

void DeclareOpenPart(const void* data, std::uint64_t bytes) {
  open_parts.emplace_back(static_cast<const unsigned char*>(data), bytes);
}

void ForgetExtent(const void* data) {
  const auto is_it = [&](const std::unique_ptr<Extent>& extent) { return extent->data == data; };
  extents.erase(std::remove_if(extents.begin(), extents.end(), is_it), extents.end());
}
void ForgetExtents() {
  extents.clear();
  open_parts.clear();
  split_cells.clear();
  other_records.clear();
  splits_used = others_used = 0;
  has_failed = has_run = false;
}
void ForgetAccesses() {
  for (auto& extent : extents) {
    if (extent->first_used > extent->last_used) continue;
    std::fill(extent->cells.begin() + static_cast<std::ptrdiff_t>(extent->first_used),
              extent->cells.begin() + static_cast<std::ptrdiff_t>(extent->last_used + 1),
              GlobalCell());
    extent->first_used = ~0ull;
    extent->last_used = 0;
  }
  splits_used = others_used = 0;
  moment = 0;
  ForgetScalarWrites();
  has_run = true;
}
void MarkFailed() { has_failed = true; }

// A byte that a plain pointer wrote is not marked, but is no longer the 0xFF of fresh memory.
std::vector<Finding> UnwrittenOutputs() {
  std::vector<Finding> found;
  if (has_failed || !has_run) return found;
  for (auto& extent : extents) {
    if (!(extent->access & ANYOP_ASCEND_WHOLE)) continue;
    if (extent->written.empty()) continue;
    std::uint64_t missing = 0, first = 0;
    for (std::uint64_t i = extent->bytes; i-- > 0;) {
      if (extent->written_bits().All(i, 1) || extent->data[i] != 0xFF) continue;
      ++missing;
      first = i;
    }
    if (!missing) continue;
    found.push_back({.kind = "output-unwritten",
                     .text = Format("%llu of the %llu bytes of output '%s' are never written; the "
                                    "first is byte %llu",
                                    static_cast<unsigned long long>(missing),
                                    static_cast<unsigned long long>(extent->bytes),
                                    extent->name.c_str(), static_cast<unsigned long long>(first)),
                     .insert = ""});
  }
  return found;
}

}  // namespace anyop_ascend
