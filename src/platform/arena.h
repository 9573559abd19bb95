// SPDX-License-Identifier: Apache-2.0
// Workspace of kernels: a stack of bytes per thread, kept from call to call.
#pragma once
#include <cstdint>

namespace anyop {

struct WorkspaceBlock;

// `bytes` of uninitialized memory, 64-byte aligned, for as long as the object lives. Scopes of one
// thread nest: a composition holds its intermediates while its operators take their own workspace.
// Throws OutOfMemory. Where the arena has room it costs a few nanoseconds; no memory moves.
class Workspace {
 public:
  explicit Workspace(std::uint64_t bytes);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void* data() const { return data_; }  // never null

 private:
  void* data_;
  WorkspaceBlock* block_;  // the block that data_ lies in
  std::uint64_t mark_;     // bytes of block_ that were in use before this scope
};

// Bytes that this thread's arena holds from the system.
std::uint64_t ArenaBytes();
// Gives back what no scope of this thread uses.
void TrimArena();

}  // namespace anyop
