// SPDX-License-Identifier: Apache-2.0
// Accesses to local memory: their order, their bounds, and whether anything was written there.
#include <algorithm>

#include "checked_block.h"

namespace anyop_ascend {
namespace {

const char* const kMemoryNames[] = {"UB", "L1",  "L0A", "L0B",      "L0C",
                                    "BT", "CO2", "SHM", "GM buffer"};

class LocalAccess {
 public:
  LocalAccess(CheckedBlock& b, const Instruction& by, Access access)
      : block_(b), by_(by), access_(access), slot_(kSlotOfPipe[by.pipe]) {}

  void Do(LocalGranule& granule, std::uint32_t mask, std::uint32_t offset) {
    // A flag for another pipe also orders what that pipe knew: one report is enough.
    bool is_reported = false;
    for (int s = 0; s < kSlots; ++s)
      if (s != slot_) is_reported = MeetSlot(granule, s, mask, offset) || is_reported;
    if (!is_reported) MeetSlot(granule, slot_, mask, offset);
    Record(granule, mask);
  }

 private:
  // True if a race was reported.
  bool MeetSlot(const LocalGranule& granule, int s, std::uint32_t mask, std::uint32_t offset) {
    const std::uint32_t& complete = block_.known[by_.pipe].of[kPipeOfSlot[s]];
    bool is_reported = false;
    if (granule.writes[s].index > complete && granule.writes[s].mask & mask) {
      is_reported = Meet(s, kWrite, granule.writes[s], offset);
    }
    if (access_ != kRead && granule.reads[s].index > complete && granule.reads[s].mask & mask) {
      is_reported = Meet(s, kRead, granule.reads[s], offset) || is_reported;
    }
    return is_reported;
  }
  // The access may come before the recorded one is complete.
  bool Meet(int s, Access other_access, const LocalRecord& record, std::uint32_t offset) {
    const Pipe other = kPipeOfSlot[s];
    const bool is_same = s == slot_;
    if (is_same && record.index == by_.index) return false;
    if (is_same && (by_.pipe == kS || other_access == kRead)) {
      if (by_.pipe != kV || !options.is_strict) return false;
    }
    const bool is_scalar = by_.pipe == kS || other == kS;
    if (is_scalar && !is_same && !options.is_strict) {
      InsertOrder(block_, other, record.index, by_.pipe);
      return false;
    }
    if (is_same && by_.pipe == kV && !options.is_strict) return false;
    ReportRace("race", by_, access_, other, other_access, record.place, NameOfByte(offset));
    return true;
  }
  void Record(LocalGranule& granule, std::uint32_t mask) {
    LocalRecord& record = access_ == kRead ? granule.reads[slot_] : granule.writes[slot_];
    if (access_ != kRead) {
      for (int s = 0; s < kSlots; ++s) {
        granule.reads[s].mask &= ~mask;
        if (s != slot_) granule.writes[s].mask &= ~mask;
      }
    }
    // One record stands for several accesses, with the newest index: those complete must go first.
    if (record.index <= block_.known[by_.pipe].of[by_.pipe]) record.mask = 0;
    record.mask |= mask;
    record.index = by_.index;
    record.place = by_.place;
  }

  CheckedBlock& block_;
  const Instruction& by_;
  const Access access_;
  const int slot_;
};

// A full write makes all granules alike.
void TouchSplitCell(LocalMemory& local, LocalAccess& access, std::uint32_t cell,
                    std::uint32_t begin, std::uint32_t end, bool is_write) {
  LocalGranule* granules = local.granules(cell);
  for (std::uint32_t at = begin; at < end;) {
    const std::uint32_t low = at % kGranule, next = std::min(end, at - low + kGranule);
    const std::uint32_t bytes = next - at;
    const std::uint32_t mask = bytes == kGranule ? ~0u : ((1u << bytes) - 1) << low;
    access.Do(granules[at % kCell / kGranule], mask, at);
    at = next;
  }
  if (is_write && end - begin == kCell) {
    local.cell(cell).whole = granules[0];
    local.cell(cell).is_split = false;
  }
}

}  // namespace

std::string NameOfByte(std::uint32_t offset) {
  return Format("%s[%u]", kMemoryNames[offset / kMemorySpan], offset % kMemorySpan);
}

void TouchLocal(const Instruction& by, Access access, std::uint32_t offset, std::uint32_t bytes) {
  if (!bytes) return;
  CheckedBlock& b = Current();
  LocalMemory& local = *b.local;
  LocalAccess touched(b, by, access);
  const std::uint32_t end = offset + bytes;
  local.Use(end);
  for (std::uint32_t begin = offset; begin < end;) {
    const std::uint32_t number = begin / kCell, next = std::min(end, (number + 1) * kCell);
    LocalCell& cell = local.cell(number);
    if (next - begin == kCell && !cell.is_split) {
      touched.Do(cell.whole, ~0u, begin);
    } else {
      local.Split(number);
      TouchSplitCell(local, touched, number, begin, next, access != kRead);
    }
    begin = next;
  }
}

void Touch(const Instruction& by, Access access, const void* at, std::uint64_t bytes) {
  TouchLocal(by, access, Current().OffsetOf(at), static_cast<std::uint32_t>(bytes));
}
bool AreDefined(const void* at, std::uint64_t bytes) {
  CheckedBlock& b = Current();
  return b.local->defined().All(b.OffsetOf(at), bytes);
}
void Define(const void* at, std::uint64_t bytes, bool defined) {
  if (!bytes) return;
  CheckedBlock& b = Current();
  const std::uint32_t offset = b.OffsetOf(at);
  b.local->Use(offset + static_cast<std::uint32_t>(bytes));
  if (defined) {
    b.local->defined().Set(offset, bytes, true);
  } else {
    b.local->Undefine(offset, bytes);
  }
}
bool AreBitsDefined(const void* at, std::uint64_t first, std::uint64_t bits) {
  CheckedBlock& b = Current();
  const std::uint32_t begin = b.OffsetOf(at);
  for (std::uint64_t i = first; i < first + bits;) {
    const std::uint64_t end = std::min(first + bits, (i / 8 + 1) * 8);
    const unsigned wanted = ((1u << (end - i)) - 1) << i % 8;
    if ((b.local->BitsOf(begin + static_cast<std::uint32_t>(i / 8)) & wanted) != wanted) {
      return false;
    }
    i = end;
  }
  return true;
}
void Undefine(const Instruction& by, std::uint32_t to, std::uint64_t bytes, std::uint32_t from,
              std::uint64_t from_bytes) {
  LocalMemory& local = *Current().local;
  std::uint64_t first = 0;
  while (first < from_bytes && local.defined().All(from + first, 1)) ++first;
  const std::uint32_t origin = local.OriginOf(from + static_cast<std::uint32_t>(first));
  local.Undefine(to, bytes);
  local.SetOrigin(to, bytes, origin ? origin : by.place);
}
void DefineFrom(const Instruction& by, const void* to, std::uint64_t bytes, const void* from,
                std::uint64_t from_bytes) {
  CheckedBlock& b = Current();
  if (!bytes) return;
  const std::uint32_t offset = b.OffsetOf(to);
  b.local->Use(offset + static_cast<std::uint32_t>(bytes));
  if (AreDefined(from, from_bytes)) {
    b.local->defined().Set(offset, bytes, true);
  } else {
    Undefine(by, offset, bytes, b.OffsetOf(from), from_bytes);
  }
}
void UndefinedRead(const char* what, const void* at, Site site) {
  if (IsEnding()) return;
  const CheckedBlock& b = Current();
  const std::uint32_t offset = b.OffsetOf(at), here = PlaceOf(site);
  const std::uint32_t origin = b.local->OriginOf(offset);
  if (!IsNew("undefined-read", here, origin)) return;
  std::string text =
      Format("%s uses %s, which nothing has written", what, NameOfByte(offset).c_str());
  if (origin) {
    text = Format("%s uses %s, which depends on bytes that nothing has written: it began at %s",
                  what, NameOfByte(offset).c_str(), Shown(origin).c_str());
  }
  AddFinding({.kind = "undefined-read",
              .here = here,
              .there = origin,
              .block = static_cast<int>(b.index),
              .text = text,
              .insert = ""});
}

bool CheckSpan(const Span& span, std::int64_t offset, std::uint64_t bytes, std::uint32_t alignment,
               Site at) {
  CheckedBlock& b = Current();
  if (!span.is_allocated) {
    Report("unallocated-tensor", at,
           "a LocalTensor is used that no buffer stands behind: it lies over UB[0]. Try "
           "AllocTensor, or TBuf::Get");
    return offset >= 0 && offset + bytes <= options.soc->bytes[kUb];
  }
  const std::int64_t begin = (span.at - b.memory) + offset;
  if (alignment > 1 && begin % alignment) {
    Report("ub-misaligned", at, "an operand begins at %s, which is no multiple of %u bytes",
           NameOfByte(static_cast<std::uint32_t>(begin)).c_str(), alignment);
  }
  if (offset >= 0 && offset + bytes <= span.rest) return true;
  if (!bytes && !offset) return true;
  const std::int64_t first = begin % kMemorySpan;
  const bool is_before = offset < 0;
  Report("ub-out-of-bounds", at, "an access to bytes %lld to %lld of %s leaves its %s at %lld",
         static_cast<long long>(first), static_cast<long long>(first + bytes),
         kMemoryNames[begin < 0 ? 0 : std::min<std::int64_t>(begin / kMemorySpan, kMemories - 1)],
         is_before ? "tensor, which begins" : "buffer, which ends",
         static_cast<long long>(first - offset + (is_before ? 0 : span.rest)));
  const std::int64_t size = options.soc->bytes[kUb];
  return begin >= 0 && begin + static_cast<std::int64_t>(bytes) <= size;
}

bool ScalarRead(const Span& span, std::int64_t offset, Site at) {
  if (!CheckSpan(span, offset, span.element, 1, at)) return false;
  const Instruction by = Issue(kS, at);
  Touch(by, kRead, span.at + offset, span.element);
  if (!AreDefined(span.at + offset, span.element)) {
    UndefinedRead("GetValue", span.at + offset, at);
  }
  return true;
}
bool ScalarWrite(const Span& span, std::int64_t offset, Site at) {
  if (!CheckSpan(span, offset, span.element, 1, at)) return false;
  const Instruction by = Issue(kS, at);
  Touch(by, kWrite, span.at + offset, span.element);
  Define(span.at + offset, span.element, true);
  return true;
}

void CheckMask(std::uint64_t mask, int lanes, Site at) {
  if (!mask) {
    Note("no-repeat", at, "a mask of no element: the instruction does nothing");
    return;
  }
  Report("mask", at, "a mask of %llu elements, but a repeat has %d",
         static_cast<unsigned long long>(mask), lanes);
}
void CheckRows(std::uint32_t rows, Site at) {
  constexpr std::uint32_t kMost = 4095;
  if (rows <= kMost) return;
  Report("copy-size", at, "a copy of %u rows (blockCount), but a copy takes at most %u", rows,
         kMost);
}
void CheckTimes(std::int64_t repeats, Site at) {
  if (block->counts) return;  // the mask alone decides
  if (repeats) {
    Report("repeat", at, "%lld repeats, but the parameter is a uint8_t: the instruction makes %d",
           static_cast<long long>(repeats), static_cast<int>(static_cast<std::uint8_t>(repeats)));
    return;
  }
  Note("no-repeat", at, "0 repeats: the instruction does nothing. 256 in a uint8_t is 0 as well");
}
void CheckSoc(Lacks what, const char* name, Site at) {
  if (!(options.soc->lacks & what)) return;
  if (what == kNoMrgSort) {  // two functions have this name, of which the SoC has one
    Note("not-on-soc", at, Format("%s may have no %s", options.soc->name, name));
    return;
  }
  Report("not-on-soc", at, "%s has no %s. Try --soc if the kernel is for another chip",
         options.soc->name, name);
}

}  // namespace anyop_ascend
