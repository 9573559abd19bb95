// SPDX-License-Identifier: Apache-2.0
// The context of kernels that are run directly, without the runtime: errors are kept, and parallel
// regions are cut, however small they are, in ways that show what depends on the cut.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "anyop/abi.h"
#include "optest/memory.h"

namespace anyop::optest {

enum class Cut : std::uint8_t {
  kWhole,       // the caller runs all at once
  kPool,        // the pool that the runtime uses
  kBackwards,   // one part after the other, the last one first, in the caller
  kThreads,     // parts on threads that begin together
  kInterrupted  // parts in pairs: the second one runs in the middle of the first
};

// Where the first part of each pair stops, with Cut::kInterrupted.
struct Stop {
  std::string memory;  // a result, a `mut` parameter or "workspace"
  int access = 1;      // after so many accesses of it
};

struct ServicesOptions {
  int threads = 1;
  Cut cut = Cut::kWhole;
  Stop stop = {};
  Pages stop_pages = {};  // of stop.memory, unless that is the workspace
  bool is_batch_invariant = false;
  std::uint64_t workspace_bytes = 0;
  unsigned char poison = kGuard;  // of the workspace
  const void* kernel_data = nullptr;
};

class Services {
 public:
  explicit Services(const ServicesOptions& options);
  Services(const Services&) = delete;
  Services& operator=(const Services&) = delete;

  const anyop_context* context() const { return &context_; }
  const std::string& error() const { return error_; }
  // With Cut::kInterrupted: a part waited for one that stood still.
  bool waits() const { return waits_; }
  // Regions that had several parts.
  int cut_regions() const { return cut_regions_; }
  // What was done outside of the workspace.
  Defect FindDefect() const;
  // For the report of a crash: the workspace, from the time being on.
  void NoteMemories() const;

 private:
  std::string WorkspaceText() const;
  static void ParallelFor(const anyop_context* context, std::int64_t n, std::int64_t grain,
                          void (*fn)(void*, std::int64_t, std::int64_t), void* arg);
  static int SetError(const anyop_context* context, int code, const char* text);

  Cut cut_;
  int access_;
  Pages stop_pages_;
  int cut_regions_ = 0;
  bool waits_ = false;
  anyop_host host_{};
  anyop_context context_{};
  std::unique_ptr<Memory> workspace_;
  std::string error_;
};

}  // namespace anyop::optest
