// SPDX-License-Identifier: Apache-2.0
// What is known of a call without its data and addresses: results, kernel, workspace, and the
// checks that each call makes.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "anyop/scope.h"
#include "anyop/value.h"
#include "runtime/registry/operator.h"
#include "signature/check.h"

namespace anyop {

// `below limit` and `offsets limit` of an index tensor.
struct IndexCheck {
  std::uint8_t param;
  bool is_offsets;
  std::int64_t limit;
};

// A tensor of the frame (not of a list), as the per-call pass sees it.
struct TensorSlot {
  std::uint8_t index;          // in the frame
  std::uint8_t is_contiguous;  // then `bytes` is its extent
  std::uint8_t is_written;
  std::uint8_t align_mask;  // element bytes - 1
  std::int64_t bytes;
  std::uint64_t over;  // slots whose memory this one may be, by bit; its own is set, so that a pass
                       // over all slots need not leave it out
};

struct DeviceKind;

// What every call reads stands together and first: a call whose plan was pushed out of the caches
// waits for few lines. With these fields spread among the others, a call from NumPy with its result
// given took 3 to 6 % more time, by no more instructions.
struct Plan {
  // For Run.
  const Operator* op = nullptr;
  anyop_run run = nullptr;
  double estimated_ns = 0;  // by .flops and .bytes; a lock held above 5 us is worth releasing
  const ScalarCheck* scalar_checks = nullptr;  // of the contract
  int n_scalar_checks = 0;
  int counters = 0;  // index of the kernel's
  int n_slots = 0;
  int only_written = -1;   // the slot of the one written tensor, where all are there and contiguous
  bool is_direct = false;  // nothing comes between the memory check and the kernel
  bool is_empty = false;   // nothing to write: the kernel is not run
  bool is_strict = false;  // refuses copies
  bool is_fallback = false;         // no kernel accepted; the composition runs
  bool has_lists = false;           // lists of tensors take part in overlap
  bool needs_slow_run = false;      // index checks, .check, copies, lists or .means
  std::uint64_t written_slots = 0;  // by bit; those of no bytes meet nothing
  anyop_context context{};          // of a call without workspace, but for `runtime`
  TensorSlot slots[kMaxParams + kMaxResults];
  int kernel = -1;  // index in op->kernels; -1: .means
  int threads = 1;
  const void* kernel_data = nullptr;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t copied = 0;  // [param] bit: copied to contiguous memory before the kernel;
                             // from n_params on, results: copied from there after it
  std::uint32_t flags = 0;   // of the context
  std::vector<IndexCheck> index_checks;
  Bindings bindings;

  // For calls on a device. All of them are slow runs, so that others never read these fields.
  const DeviceKind* device_kind = nullptr;  // null: the host
  DataChecks data_checks = DataChecks::kOnDevice;
  bool runs_on_host = false;  // on copies: no kernel of the device accepted
  // The device that runs a call of tensors on the host, on copies; null: the host runs it.
  const DeviceKind* taken_by = nullptr;
  bool stops_on_failed_check = false;  // the kernel does

  // For hosts.
  DLDevice device = kHostDevice;  // where all tensors lie, results too
  int form = 0;
  int n_results = 0;
  ResultShape results[kMaxResults];

  // For the plan cache.
  std::atomic<int> references{1};
  std::uint64_t hash = 0;
  std::vector<std::uint64_t> key;
  Plan* next_in_bucket = nullptr;
  Plan* newer = nullptr;  // neighbours in order of use
  Plan* older = nullptr;
};

inline void Acquire(Plan* plan) { plan->references.fetch_add(1, std::memory_order_relaxed); }
inline void Release(Plan* plan) {
  // acq_rel: whoever deletes the plan comes after the last use by every other holder.
  if (plan && plan->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete plan;
}

}  // namespace anyop
