// SPDX-License-Identifier: Apache-2.0
// Order between the pipes of a block. A pipe's time is the index of its last instruction.
#include <algorithm>
#include <cstring>

#include "checked_block.h"

namespace anyop_ascend {

const char* const kPipeNames[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX", "?", "ALL"};
Options options;

namespace {

// The scalar unit issues every instruction, so a pipe knows what it knew; but of its stores only
// what a flag S_x has told.
void LearnFromScalar(CheckedBlock& b, Pipe pipe) {
  if (pipe == kS) return;
  for (int q = kS + 1; q < kPipes; ++q)
    b.known[pipe].of[q] = std::max(b.known[pipe].of[q], b.known[kS].of[q]);
}

std::string FlagName(Pipe from, Pipe to, int id) {
  return Format("<HardEvent::%s_%s>(%d)", kPipeNames[from], kPipeNames[to], id);
}

void CheckEventId(Pipe from, Pipe to, int id, Site at) {
  if (id >= 0 && id < options.soc->event_ids) return;
  Report("event-id", at, "event id %d of %s_%s is outside 0..%d", id, kPipeNames[from],
         kPipeNames[to], options.soc->event_ids - 1);
}

}  // namespace

void CheckedBlock::Reset(std::uint32_t number, std::uint32_t blocks) {
  static_cast<Block&>(*this) = Block();
  index = number;
  count = blocks;
  has_begun = has_ended = was_ended = false;
  waits_for.clear();
  cross_waits.clear();
  std::memset(known, 0, sizeof known);
  std::memset(issued, 0, sizeof issued);
  steps = 0;
  place = 0;
  buffers.clear();
  flags.clear();
  others.clear();
  cache.clear();
  cleaned.clear();
  extent = 0;
  atomic_place = 0;
}
void AtomicFrom(Site at) { Current().atomic_place = PlaceOf(at); }

void CountStep(CheckedBlock& b, Site at) {
  b.place = PlaceOf(at);
  if (++b.steps > options.max_steps) {
    const std::string text =
        Format("the block made %llu calls of instructions and has not ended; the limit is %llu",
               static_cast<unsigned long long>(b.steps - 1),
               static_cast<unsigned long long>(options.max_steps));
    End("endless", text.c_str(), at);
  }
}
Instruction Issue(Pipe pipe, Site at) {
  CheckedBlock& b = Current();
  CountStep(b, at);
  LearnFromScalar(b, pipe);
  return {pipe, b.place, ++b.issued[pipe]};
}

void Snapshot(Pipe pipe, Clock* clock) {
  CheckedBlock& b = Current();
  LearnFromScalar(b, pipe);
  *clock = b.known[pipe];
  clock->of[pipe] = b.issued[pipe];
}
void Join(Pipe pipe, const Clock& clock) {
  CheckedBlock& b = Current();
  for (int q = 0; q < kPipes; ++q) b.known[pipe].of[q] = std::max(b.known[pipe].of[q], clock.of[q]);
}
void InsertOrder(CheckedBlock& b, Pipe other, std::uint32_t index, Pipe pipe) {
  Clock clock;
  LearnFromScalar(b, other);
  clock = b.known[other];
  clock.of[other] = index;
  Join(pipe, clock);
}

void SetFlag(Pipe from, Pipe to, int id, Site at) {
  CheckEventId(from, to, id, at);
  CheckedBlock& b = Current();
  CountStep(b, at);
  const std::uint32_t here = b.place;
  Clock clock;
  Snapshot(from, &clock);
  for (Flag& flag : b.flags) {
    if (flag.from != from || flag.to != to || flag.id != id) continue;
    if (IsNew("flag-set-twice", here, flag.place)) {
      AddFinding({.kind = "flag-set-twice",
                  .here = here,
                  .there = flag.place,
                  .block = static_cast<int>(b.index),
                  .text = Format("SetFlag%s is set while the flag that %s set has not been waited "
                                 "for: two sets are one, and a wait can hang",
                                 FlagName(from, to, id).c_str(), Shown(flag.place).c_str()),
                  .insert = Format("WaitFlag%s between the two, or another event id",
                                   FlagName(from, to, id).c_str())});
    }
    break;
  }
  b.flags.push_back({from, to, id, here, clock});
}

void WaitFlag(Pipe from, Pipe to, int id, Site at) {
  CheckEventId(from, to, id, at);
  CheckedBlock& b = Current();
  CountStep(b, at);
  const std::uint32_t here = b.place;
  for (auto flag = b.flags.begin(); flag != b.flags.end(); ++flag) {
    if (flag->from != from || flag->to != to || flag->id != id) continue;
    Join(to, flag->clock);
    b.flags.erase(flag);
    return;
  }
  if (IsNew("wait-without-set", here, 0)) {
    AddFinding({.kind = "wait-without-set",
                .here = here,
                .block = static_cast<int>(b.index),
                .text = Format("WaitFlag%s has no SetFlag before it: the core hangs",
                               FlagName(from, to, id).c_str()),
                .insert = Format("SetFlag%s before %s", FlagName(from, to, id).c_str(),
                                 Shown(here).c_str())});
  }
}

void Barrier(Pipe pipe, Site at) {
  CheckedBlock& b = Current();
  CountStep(b, at);
  if (pipe == kS) {
    Report("barrier-S", at,
           "PipeBarrier<PIPE_S> is an error of the hardware: the scalar unit "
           "works in order without it");
    return;
  }
  if (pipe != kAll) {
    b.known[pipe].of[pipe] = b.issued[pipe];
    return;
  }
  for (Clock& clock : b.known) std::memcpy(clock.of, b.issued, sizeof clock.of);
}

void ReportRace(const char* kind, const Instruction& by, Access access, Pipe other,
                Access other_access, std::uint32_t there, const std::string& what) {
  const bool is_same = by.pipe == other;
  // The vendor's compiler inserts these orders itself, unless it is told not to.
  const bool is_inserted = (is_same && by.pipe == kV) || by.pipe == kS || other == kS;
  if (!IsNew(kind, by.place, there)) return;
  Finding found{.kind = kind,
                .level = is_inserted ? Level::kStrict : Level::kError,
                .here = by.place,
                .there = there,
                .block = static_cast<int>(block->index),
                .there_block = static_cast<int>(block->index),
                .text = "",
                .insert = ""};
  found.text = Format("%s %s %s on pipe %s before the %s on pipe %s at %s is known to be complete",
                      Shown(by.place).c_str(), access == kRead ? "reads" : "writes", what.c_str(),
                      kPipeNames[by.pipe], other_access == kRead ? "read" : "write",
                      kPipeNames[other], Shown(there).c_str());
  if (is_same) {
    found.insert =
        Format("PipeBarrier<PIPE_%s>() before %s", kPipeNames[other], Shown(by.place).c_str());
  } else {
    const std::string event = Format("%s_%s", kPipeNames[other], kPipeNames[by.pipe]);
    found.insert = Format(
        "SetFlag<HardEvent::%s>(id) after %s and WaitFlag<HardEvent::%s>(id) "
        "before %s",
        event.c_str(), Shown(there).c_str(), event.c_str(), Shown(by.place).c_str());
  }
  AddFinding(std::move(found));
}

}  // namespace anyop_ascend
