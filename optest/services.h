// SPDX-License-Identifier: Apache-2.0
// The context of kernels that are run directly, without the runtime: errors are kept, and parallel
// regions are cut in ways that show what depends on the cut.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "anyop/abi.h"
#include "optest/memory.h"

namespace anyop::optest {

enum class Cut : std::uint8_t {
  kWhole,     // the caller runs all at once
  kPool,      // the pool that the runtime uses
  kBackwards  // parts of `grain` items, the last one first, in the caller
};

struct ServicesOptions {
  int threads = 1;
  Cut cut = Cut::kWhole;
  bool is_batch_invariant = false;
  std::uint64_t workspace_bytes = 0;
  unsigned char poison = kGuard;  // of the workspace
  std::uint32_t tiling_bytes = 0;
  const void* kernel_data = nullptr;
};

class Services {
 public:
  explicit Services(const ServicesOptions& options);
  Services(const Services&) = delete;
  Services& operator=(const Services&) = delete;

  const anyop_context* context() const { return &context_; }
  void* tiling() { return tiling_.data(); }
  const std::string& error() const { return error_; }
  // "" or where beyond the workspace something was written.
  std::string FindUndeclaredWrite() const;

 private:
  static void ParallelFor(const anyop_context* context, std::int64_t n, std::int64_t grain,
                          void (*fn)(void*, std::int64_t, std::int64_t), void* arg);
  static int SetError(const anyop_context* context, int code, const char* text);

  Cut cut_;
  anyop_host host_{};
  anyop_context context_{};
  std::unique_ptr<Memory> workspace_;
  std::vector<std::uint64_t> tiling_;
  std::string error_;
};

}  // namespace anyop::optest
