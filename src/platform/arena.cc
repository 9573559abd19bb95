// SPDX-License-Identifier: Apache-2.0
#include "platform/arena.h"

#include <algorithm>
#include <string>

#include "platform/byte_count.h"
#include "platform/error.h"
#include "platform/of_thread.h"
#include "platform/pages.h"

namespace anyop {

// Lies at the start of its own memory. 64 bytes, so that what follows it is 64-byte aligned.
struct alignas(64) WorkspaceBlock {
  WorkspaceBlock* below;   // smaller and older, or null
  std::uint64_t capacity;  // bytes after this header
  std::uint64_t used;
};

namespace {

constexpr std::uint64_t kFirstBlock = 256 << 10, kAlignment = 64;

constexpr std::uint64_t RoundUp(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) & ~(unit - 1);
}
char* Start(WorkspaceBlock* block) {
  return reinterpret_cast<char*>(block) + sizeof(WorkspaceBlock);
}

[[noreturn]] void FailToAllocate(std::uint64_t bytes) {
  Fail(ANYOP_OUT_OF_MEMORY, "no memory for a workspace of " + std::to_string(bytes) +
                                " bytes. Try smaller tensors, or fewer threads.");
}

struct Arena {
  WorkspaceBlock* top = nullptr;
  std::uint64_t held = 0;
  std::uint64_t most = 0;  // the most bytes of all blocks together when there were several

  ~Arena() { Release(); }

  // A new block on top, of at least twice the size of the one below: a stack that grows takes few
  // blocks. The blocks below stay where they are, because outer scopes hold their addresses.
  void Push(std::uint64_t bytes) {
    std::uint64_t capacity = std::max({bytes, most, kFirstBlock, top ? 2 * top->capacity : 0});
    std::uint64_t total = 0;
    void* memory = nullptr;
    // If the system refuses the generous size, it is asked for no more than this scope needs.
    for (const std::uint64_t c : {capacity, bytes}) {
      total = PageBytes(c + sizeof(WorkspaceBlock));
      if ((memory = MapPages(total))) break;
    }
    if (!memory) FailToAllocate(bytes);
    top = new (memory) WorkspaceBlock{top, total - sizeof(WorkspaceBlock), 0};
    held += total;
  }
  void Pop() {
    WorkspaceBlock* block = top;
    top = block->below;
    held -= block->capacity + sizeof(WorkspaceBlock);
    UnmapPages(block, block->capacity + sizeof(WorkspaceBlock));
  }
  void Release() {
    while (top && top->used == 0) Pop();
  }
};

Arena& ArenaOfThread() { return OfThread<Arena>::Get(); }

}  // namespace

Workspace::Workspace(std::uint64_t bytes) {
  // Below this bound no sum of sizes in this file wraps.
  if (bytes > std::uint64_t(kMostBytes)) FailToAllocate(bytes);
  Arena& arena = ArenaOfThread();
  // A scope of 0 bytes takes room too: without it the block would count as empty, and an inner
  // scope that outgrows the block would give it back under the outer one.
  bytes = RoundUp(std::max<std::uint64_t>(bytes, 1), kAlignment);
  if (!arena.top || arena.top->capacity - arena.top->used < bytes) [[unlikely]]
    arena.Push(bytes);
  block_ = arena.top;
  mark_ = block_->used;
  data_ = Start(block_) + mark_;
  block_->used = mark_ + bytes;
}

Workspace::~Workspace() {
  block_->used = mark_;
  if (mark_ == 0 && block_->below) [[unlikely]] {
    // The stack had outgrown the block below. Once all are empty they are given back, and the next
    // Push makes one block that is as large as all of them (`most`).
    Arena& arena = ArenaOfThread();
    arena.most = std::max(arena.most, arena.held);
    arena.Pop();
    if (arena.top->used == 0) arena.Release();
  }
}

std::uint64_t ArenaBytes() { return ArenaOfThread().held; }

void TrimArena() {
  ArenaOfThread().most = 0;
  ArenaOfThread().Release();
}

}  // namespace anyop
