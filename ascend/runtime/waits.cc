// SPDX-License-Identifier: Apache-2.0
// Blocks that wait for each other, in both builds.
#include <algorithm>

#include "checked_block.h"

namespace anyop_ascend {
namespace {

constexpr const char* kSyncAll = "SyncAll";

FiberBlock& Me() { return *static_cast<FiberBlock*>(block); }
bool IsChecked() { return launched->of.is_checked; }

void EndIfAborted() {
  if (!launched->is_aborted) return;
  Me().is_ending = true;
  throw EndOfBlock();
}

// Lets other blocks run until the condition holds. end: what would end the wait.
template <class F>
void WaitUntil(const std::string& what, const std::string& end, Site at, F holds) {
  FiberBlock& me = Me();
  while (!holds()) {
    EndIfAborted();
    me.waits_for = what;
    me.wait_ends_by = end;
    me.waits_at = PlaceOf(at);
    swapcontext(&me.context, &launched->scheduler);
    EndIfAborted();
  }
  me.waits_for.clear();
  ++launched->progress;
}

// All that this block has issued, and what it knows of others.
Knowledge KnowledgeOf(const CheckedBlock& b) {
  Knowledge all = b.others;
  all.resize(launched->blocks.size() * kPipes);
  std::copy_n(b.issued, static_cast<int>(kPipes), all.begin() + b.index * kPipes);
  return all;
}
void Merge(Knowledge& into, const Knowledge& from) {
  into.resize(std::max(into.size(), from.size()));
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

// Every block that takes part must be on a core of its own, which no chip has for more.
void CheckResident(const char* what, Site at) {
  constexpr std::size_t kMostResident = 1024;
  if (IsChecked()) CountStep(Current(), at);
  if (launched->blocks.size() <= kMostResident) return;
  const std::string text =
      Format("%s among %zu blocks can not end: all of them must run at the same time", what,
             launched->blocks.size());
  End("deadlock", text.c_str(), at);
}

}  // namespace

void ReportDeadlock() {
  std::string waiting, returned, insert;
  std::uint32_t here = 0;
  bool needs_all = false;
  int waits = 0, ended = 0;
  for (const FiberBlock* b : launched->blocks) {
    if (b->was_ended) return;
    if (b->has_ended) {
      if (ended++ < 4) returned += Format("%s%u", returned.empty() ? "" : ", ", b->index);
      continue;
    }
    if (!here) here = b->waits_at;
    if (insert.empty()) insert = b->wait_ends_by;
    needs_all = needs_all || b->waits_for == kSyncAll;
    if (waits++ < 4) {
      waiting += Format("%sblock %u in %s at %s", waiting.empty() ? "" : "; ", b->index,
                        b->waits_for.c_str(), Shown(b->waits_at).c_str());
    }
  }
  if (!IsNew("deadlock", here, 0)) return;
  std::string text =
      Format("%d %s for ever: %s%s", waits, waits == 1 ? "block waits" : "blocks wait",
             waiting.c_str(), waits > 4 ? "; and others" : "");
  if (ended) {
    text +=
        Format(". %d %s returned before it: %s%s", ended, ended == 1 ? "block has" : "blocks have",
               returned.c_str(), ended > 4 ? " and others" : "");
    if (needs_all) insert = "SyncAll on every path to a return, or a launch with fewer blocks";
  }
  AddFinding({.kind = "deadlock", .here = here, .text = text, .insert = insert});
}

void SyncAll(Site at) {
  if (IsChecked()) Barrier(kAll, at);
  if (launched->blocks.size() == 1) return;
  CheckResident("SyncAll", at);
  if (IsChecked()) Merge(launched->synced, KnowledgeOf(Current()));
  const std::uint64_t generation = launched->generation;
  if (++launched->arrived == launched->blocks.size()) {
    launched->arrived = 0;
    ++launched->generation;
    ++launched->progress;
  } else {
    WaitUntil(kSyncAll, "as many SyncAll in every block", at,
              [&] { return launched->generation != generation; });
  }
  if (IsChecked()) Merge(Current().others, launched->synced);
}

// All of the block's work so far is complete.
void IbSet(int of_block, int event, Site at) {
  CheckResident("IBSet", at);
  Knowledge known;
  if (IsChecked()) {
    Barrier(kAll, at);
    known = KnowledgeOf(Current());
  }
  launched->ib[{of_block, event}].push_back({std::move(known), PlaceOf(at)});
  ++launched->progress;
}
void IbWait(int for_block, int event, Site at) {
  CheckResident("IBWait", at);
  auto& sets = launched->ib[{for_block, event}];
  WaitUntil(Format("IBWait(block %d, event %d)", for_block, event),
            Format("IBSet(block %d, event %d) in that block", for_block, event), at,
            [&] { return !sets.empty(); });
  const Knowledge known = std::move(sets.front().known);
  sets.pop_front();
  if (!IsChecked()) return;
  Merge(Current().others, known);
  Barrier(kAll, at);
}

// Covers what `pipe` has issued, and what that is known to follow.
void CrossSet(int, Pipe pipe, int id, Site at) {
  CheckResident("CrossCoreSetFlag", at);
  Knowledge known;
  if (IsChecked()) {
    if (id < 0 || id > 10) Report("event-id", at, "CrossCoreSetFlag(%d): ids are 0 to 10", id);
    Clock clock;
    Snapshot(pipe, &clock);
    known = KnowledgeOf(Current());
    std::copy_n(clock.of, static_cast<int>(kPipes), known.begin() + Current().index * kPipes);
  }
  auto& sets = launched->cross[id];
  sets.push_back(std::move(known));
  ++launched->progress;
  int waits = 0;
  for (const FiberBlock* other : launched->blocks) {
    const auto counted = other->cross_waits.find(id);
    if (counted != other->cross_waits.end()) waits = std::max(waits, counted->second);
  }
  if (IsChecked() && sets.size() > (waits + 15u) * launched->blocks.size()) {
    Report("cross-flag-overflow", at, "CrossCoreSetFlag(%d): more than 15 sets without a wait", id);
  }
}
void CrossWait(int id, Site at) {
  CheckResident("CrossCoreWaitFlag", at);
  const auto turns = static_cast<std::size_t>(++Me().cross_waits[id]);
  const auto& sets = launched->cross[id];
  const std::size_t needed = turns * launched->blocks.size();
  WaitUntil(Format("CrossCoreWaitFlag(%d)", id),
            Format("CrossCoreSetFlag of flag %d in every block, once for each wait", id), at,
            [&] { return sets.size() >= needed; });
  if (!IsChecked()) return;
  CheckedBlock& b = Current();
  for (std::size_t i = 0; i < needed; ++i) Merge(b.others, sets[i]);
}

}  // namespace anyop_ascend
