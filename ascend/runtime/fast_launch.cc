// SPDX-License-Identifier: Apache-2.0
// Launches without checks, from any thread.
#include <chrono>
#include <memory>
#include <tuple>

#include "fibers.h"
#include "launches.h"
#include "local_memory.h"
#include "workers.h"

namespace anyop_ascend {
namespace {

// Blocks below this time are not worth another thread.
constexpr auto kWorthSharing = std::chrono::microseconds(30);

unsigned char* LocalMemoryOfThread() {
  static thread_local void* memory = nullptr;
  if (!memory) memory = MapZeros(kLocalBytes);
  return static_cast<unsigned char*>(memory);
}

// Runs one block on this thread's stack. A block that is ended stops the launch.
bool RunInline(const LaunchOf& launch, std::uint32_t index) {
  Block own;
  own.index = index;
  own.count = launch.blocks;
  own.tiling_key = launch.tiling_key;
  own.memory = LocalMemoryOfThread();
  jmp_buf end;
  block = &own;
  block_end = &end;
  const bool is_complete = !setjmp(end) && RunBody(launch, 0);
  block = nullptr;
  return is_complete;
}

bool RunIndependent(const LaunchOf& launch) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint32_t i = 0; i < launch.blocks; ++i) {
    if (!RunInline(launch, i)) return false;
    if (i != 0 || launch.blocks < 3) continue;
    const auto time = std::chrono::steady_clock::now() - begin;
    if (time * (launch.blocks - 1) > kWorthSharing * 4) {
      return Share(1, launch.blocks, [&](std::uint32_t n) { return RunInline(launch, n); });
    }
  }
  return true;
}

// Blocks that may wait for each other, in turn. A block has a stack and local memory from its begin
// to its end only, as in a library of waiting kernels not all of them wait.
struct FiberStock {
  static constexpr std::size_t kMostKept = 1024;
  std::vector<std::unique_ptr<FiberBlock>> blocks;
  std::vector<std::pair<unsigned char*, unsigned char*>> cores;  // free ones: stack and memory

  void TakeCore(FiberBlock& b) {
    if (cores.empty()) {
      cores.emplace_back(MapStack(), static_cast<unsigned char*>(MapZeros(kLocalBytes)));
    }
    std::tie(b.stack, b.memory) = cores.back();
    cores.pop_back();
  }
  void GiveCoreBack(const FiberBlock& b) { cores.emplace_back(b.stack, b.memory); }
};

bool RunTogether(const LaunchOf& launch) {
  static thread_local FiberStock* stock = nullptr;  // threads keep their stacks
  if (!stock) stock = new FiberStock;
  Launched run;
  run.of = launch;
  while (stock->blocks.size() < launch.blocks) {
    stock->blocks.push_back(std::make_unique<FiberBlock>());
  }
  for (std::uint32_t i = 0; i < launch.blocks; ++i) {
    FiberBlock& b = *stock->blocks[i];
    b = FiberBlock();
    b.index = i;
    b.count = launch.blocks;
    b.tiling_key = launch.tiling_key;
    run.blocks.push_back(&b);
  }
  launched = &run;
  std::size_t left = launch.blocks;
  while (left) {
    const std::uint64_t before = run.progress;
    for (FiberBlock* b : run.blocks) {
      if (b->has_ended) continue;
      if (!b->has_begun) stock->TakeCore(*b);
      Resume(*b);
      if (!b->has_ended) continue;
      stock->GiveCoreBack(*b);
      --left;
    }
    if (left && run.progress == before && !run.is_aborted) {
      ReportDeadlock();
      run.is_aborted = true;
    }
  }
  launched = nullptr;
  bool is_complete = !run.is_aborted;
  for (const FiberBlock* b : run.blocks) is_complete = is_complete && !b->was_ended;
  if (stock->blocks.size() > FiberStock::kMostKept) stock->blocks.resize(FiberStock::kMostKept);
  return is_complete;
}

}  // namespace

bool LaunchFast(const LaunchOf& launch) {
  OpenPagesBehind(true);
  if (launch.waits) return RunTogether(launch);
  return RunIndependent(launch);
}

}  // namespace anyop_ascend
