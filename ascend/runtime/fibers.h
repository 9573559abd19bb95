// SPDX-License-Identifier: Apache-2.0
// Blocks that can wait for each other, each on a stack of its own. They take turns on one thread.
#pragma once
#include <ucontext.h>

#include <csetjmp>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "anyop_ascend/core.h"

namespace anyop_ascend {

// Thrown through a block's functions to end it.
struct EndOfBlock {};
[[noreturn]] void EndBlock();  // of which something was reported

constexpr std::uint64_t kStackBytes = 512 * 1024;
// Below a stack nobody may touch so much, so that large arrays meet it as well.
constexpr std::uint64_t kStackGuardBytes = 16 * 1024 * 1024;

struct FiberBlock : Block {
  ucontext_t context;
  jmp_buf end;  // see block_end
  unsigned char* stack = nullptr;
  bool has_begun = false;
  bool has_ended = false;
  bool was_ended = false;      // by a finding
  std::uint32_t place = 0;     // of the last instruction; without checks none is known
  std::string waits_for;       // "SyncAll"; "" while it runs
  std::string wait_ends_by;    // what would end the wait: "IBSet(block 0, event 1) in that block"
  std::uint32_t waits_at = 0;  // place
  std::map<int, int> cross_waits;  // CrossCoreWaitFlag of each id so far
};

// What blocks wait for each other with. Clocks are empty without checks.
using Knowledge = std::vector<std::uint32_t>;
struct IbFlag {
  Knowledge known;
  std::uint32_t place;
};
struct Launched {
  LaunchOf of;
  std::vector<FiberBlock*> blocks;
  ucontext_t scheduler;
  bool is_aborted = false;  // who waits must end
  std::uint64_t progress = 0;
  std::uint32_t arrived = 0;  // at SyncAll
  std::uint64_t generation = 0;
  Knowledge synced;
  std::map<std::pair<int, int>, std::deque<IbFlag>> ib;  // block and event
  std::map<int, std::vector<Knowledge>> cross;           // id: one for each set
};
extern thread_local Launched* launched;

// Where the block that runs on this thread ends when it calls exit() and its like. No exception can
// do it, because callers of exit() are compiled as if it threw none.
extern thread_local jmp_buf* block_end;

// Runs a block until its end; false if something ended it, such as an exception that leaves it
// after the instruction at `place`.
bool RunBody(const LaunchOf& launch, const std::uint32_t& place);

// Reports an exception that leaves a kernel; called while it is handled.
void ReportException(std::uint32_t place);

unsigned char* MapStack();
// Runs or resumes a block until it ends or waits.
void Resume(FiberBlock& resumed);
// Nothing can run: says which blocks wait for what, unless one was ended by a finding of its own,
// which explains that already.
void ReportDeadlock();
// The order in which blocks take turns.
std::vector<std::uint32_t> OrderOf(std::uint32_t blocks, std::uint64_t seed);

}  // namespace anyop_ascend
