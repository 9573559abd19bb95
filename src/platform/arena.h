// SPDX-License-Identifier: Apache-2.0
// Workspace of kernels: a stack of bytes per thread, kept from call to call.
#pragma once
#include <cstdint>

namespace anyop {

// `bytes` of uninitialized memory, 64-byte aligned, for as long as the object lives. Scopes of one
// thread nest: a composition holds its intermediates while its operators take their own workspace.
// Throws OutOfMemory. A call that finds room costs a few nanoseconds; no memory moves.
class Workspace {
 public:
  explicit Workspace(std::uint64_t bytes);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  void* block_ = nullptr;   // where the mark lies
  std::uint64_t mark_ = 0;  // bytes in use of that block before this scope
};

// Bytes that this thread's arena holds from the system.
std::uint64_t ArenaBytes();
// Gives back what no scope uses.
void TrimArena();

}  // namespace anyop
