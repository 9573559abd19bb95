// SPDX-License-Identifier: Apache-2.0
// Launches with checks: one at a time, blocks in turn on one thread.
#include <memory>
#include <mutex>
#include <tuple>

#include "data_cache.h"
#include "faults.h"
#include "global.h"
#include "launches.h"

namespace anyop_ascend {
namespace {

// What blocks of earlier launches used; given out again.
struct Stock {
  std::vector<std::unique_ptr<CheckedBlock>> blocks;
  std::vector<std::pair<unsigned char*, LocalMemory*>> cores;
};
Stock& Stocked() {
  static auto* stock = new Stock;
  return *stock;
}

// A block has a stack and local memory from its begin to its end only.
void TakeCore(CheckedBlock& b) {
  Stock& stock = Stocked();
  if (stock.cores.empty()) stock.cores.emplace_back(MapStack(), new LocalMemory);
  std::tie(b.stack, b.local) = stock.cores.back();
  stock.cores.pop_back();
  b.memory = b.local->data();
}
void GiveCoreBack(CheckedBlock& b) {
  b.local->Forget();
  Stocked().cores.emplace_back(b.stack, b.local);
  b.local = nullptr;
}

void ReportLeftFlags(const CheckedBlock& b) {
  if (b.was_ended) return;
  for (const Flag& flag : b.flags) {
    if (!IsNew("flag-leak", flag.place, 0)) continue;
    const char* from = kPipeNames[flag.from];
    const char* to = kPipeNames[flag.to];
    AddFinding(
        {.kind = "flag-leak",
         .here = flag.place,
         .block = static_cast<int>(b.index),
         .text = Format("SetFlag<HardEvent::%s_%s>(%d) at %s is never waited for: the flag "
                        "reaches the next kernel",
                        from, to, flag.id, Shown(flag.place).c_str()),
         .insert = Format("WaitFlag<HardEvent::%s_%s>(%d) before the end", from, to, flag.id)});
  }
}

// A device may clear the mode between kernels; that it does is not documented.
void NoteLeftAtomic(const CheckedBlock& b) {
  if (!b.atomic || !IsNew("atomic-left", b.atomic_place, 0)) return;
  const std::string place = Shown(b.atomic_place);
  AddFinding({.kind = "atomic-left",
              .level = Level::kNote,
              .here = b.atomic_place,
              .block = static_cast<int>(b.index),
              .text = Format("the mode that %s sets is still on at the end of the block: copies of "
                             "the next kernel may be atomic, too",
                             place.c_str()),
              .insert = "SetAtomicNone() behind the copies that it is for"});
}

void RunTurn(CheckedBlock& b) {
  if (!b.has_begun) TakeCore(b);
  if (sigsetjmp(fault_return, 0)) {
    is_in_block = false;
    ReportFault();
    b.has_ended = b.was_ended = true;
    ++launched->progress;
  } else {
    is_in_block = true;
    Resume(b);
    is_in_block = false;
  }
  block = nullptr;
  if (!b.has_ended) return;
  block = &b;
  ReportLeftFlags(b);
  if (!b.was_ended) {
    NoteDirtyLines(b);
    NoteLeftAtomic(b);
  }
  block = nullptr;
  GiveCoreBack(b);
}

void ReportLeftIb() {
  for (const auto& [key, sets] : launched->ib) {
    if (sets.empty()) continue;
    const std::uint32_t place = sets.front().place;
    if (!IsNew("flag-leak", place, 0)) continue;
    AddFinding({.kind = "flag-leak",
                .here = place,
                .text = Format("IBSet(block %d, event %d) at %s is never waited for: the flag "
                               "stays in the workspace, where the next launch finds it",
                               key.first, key.second, Shown(place).c_str()),
                .insert = Format("IBWait(block %d, event %d) in another block, or a condition at "
                                 "%s",
                                 key.first, key.second, Shown(place).c_str())});
  }
}

void RunAll(const std::vector<std::uint32_t>& order) {
  std::size_t left = order.size();
  while (left) {
    const std::uint64_t before = launched->progress;
    for (const std::uint32_t number : order) {
      auto& b = *static_cast<CheckedBlock*>(launched->blocks[number]);
      if (b.has_ended) continue;
      RunTurn(b);
      if (b.has_ended) --left;
    }
    if (left && launched->progress == before) {
      ReportDeadlock();
      launched->is_aborted = true;
    }
  }
}

}  // namespace

bool LaunchChecked(const LaunchOf& launch) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  OpenPagesBehind(false);
  Stock& stock = Stocked();
  Launched run;
  run.of = launch;
  for (std::uint32_t i = 0; i < launch.blocks; ++i) {
    if (i == stock.blocks.size()) stock.blocks.push_back(std::make_unique<CheckedBlock>());
    stock.blocks[i]->Reset(i, launch.blocks);
    run.blocks.push_back(stock.blocks[i].get());
  }
  ForgetAccesses();
  launched = &run;
  {
    const FaultCatcher catcher;
    RunAll(OrderOf(launch.blocks, options.seed));
  }
  bool is_complete = !run.is_aborted;
  for (const FiberBlock* b : run.blocks) is_complete = is_complete && !b->was_ended;
  if (is_complete) ReportLeftIb();
  if (!is_complete) MarkFailed();
  launched = nullptr;
  return is_complete;
}

}  // namespace anyop_ascend
