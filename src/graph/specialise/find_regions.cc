// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>

#include "graph/ir/frame.h"
#include "graph/specialise/region.h"
#include "graph/specialise/row_runs.h"
#include "graph/specialise/specialisation.h"
#include "platform/byte_count.h"
#include "platform/cpu.h"
#include "platform/error.h"
#include "platform/threads.h"
#include "runtime/plan/thread_state.h"
#include "runtime/run/call.h"

namespace anyop {
namespace {

constexpr double kWorthwhileNs = 20000;  // less is not cut
constexpr double kForcedNs = 200000;     // regions of given blocks (tests): all threads take part
constexpr double kBlockNs = 2000;        // the least work of a block
constexpr int kBlocksPerThread = 8;      // at least, so that claims even out noise
constexpr std::int64_t kUnknownL2 = 1 << 20;

// The number of a touched tensor among those of a region, to which it is added if it is new.
int TensorNumber(const Specialisation& s, const Touch& t, Region* region) {
  for (std::size_t k = 0; k < region->tensors.size(); ++k) {
    if (region->tensors[k].value == t.value) return int(k);
  }
  const Layout& l = s.layouts[std::size_t(t.value)];
  RegionTensor made;
  made.value = t.value;
  made.pitch_bytes = t.pitch_bytes;
  made.rank = l.rank - t.lead + 1;
  made.strides[0] = t.pitch_bytes / Bytes(l.dtype);
  std::int64_t dense = 1;
  for (int d = l.rank - 1; d >= t.lead; --d) {
    made.shape[d - t.lead + 1] = l.shape[d];
    made.strides[d - t.lead + 1] = l.strides[d];
    made.is_contiguous &= l.shape[d] == 1 || l.strides[d] == dense;
    dense *= l.shape[d];
  }
  made.is_contiguous &= made.strides[0] == dense;
  region->tensors.push_back(made);
  return int(region->tensors.size()) - 1;
}

double EstimatedNs(const Specialisation& s, const RowRun& run) {
  double ns = 0;
  for (std::size_t k = 0; k < run.calls.size(); ++k) {
    ns += s.calls[std::size_t(run.first) + k].plan->estimated_ns;
  }
  return ns;
}

// A region of all calls of a run, without a block.
Region RegionOf(const Specialisation& s, const RowRun& run) {
  Region region;
  region.first = run.first;
  region.last = run.first + int(run.calls.size()) - 1;
  region.rows = run.rows;
  region.estimated_ns = EstimatedNs(s, run);
  const int most = State().scope.threads ? State().scope.threads : NumThreads();
  region.threads = int(std::min<std::int64_t>(most, run.rows));
  for (std::size_t k = 0; k < run.calls.size(); ++k) {
    RegionCall call;
    call.call = region.first + int(k);
    const PlannedCall& planned = s.calls[std::size_t(call.call)];
    const Operator& op = *s.graph->nodes[std::size_t(planned.node)].op;
    call.frame = region.frame_values;
    region.frame_values += std::size_t(op.n_params + op.n_results);
    call.tensors.assign(std::size_t(op.n_params + op.n_results), -1);
    for (const Touch& t : run.calls[k]) {
      if (t.is_row) call.tensors[std::size_t(t.place)] = TensorNumber(s, t, &region);
    }
    region.calls.push_back(std::move(call));
  }
  return region;
}

// Calls on tensors that fit the last cache are as fast one by one. Measured on six calls with 32
// MiB of it: on tensors of 4 MiB blocks take 1.05 times as long, on 64 MiB half as long.
std::int64_t OuterCache() {
  return Caches().l3 ? Caches().l3 : 8 * (Caches().l2 ? Caches().l2 : kUnknownL2);
}

// Chooses the number of rows of a block: its rows stay in the second cache beside the tensors
// that are not cut. False where cutting does not pay.
bool ChooseBlock(const Specialisation& s, const RowRun& run, std::int64_t block_rows,
                 Region* region) {
  if (block_rows) {
    region->block = std::min(block_rows, region->rows);
    region->estimated_ns = std::max(region->estimated_ns, kForcedNs);
    return region->block < region->rows;
  }
  std::int64_t whole_bytes = 0, row_bytes = 0;
  for (const auto& touches : run.calls) {
    for (const Touch& t : touches) {
      if (t.is_row) continue;
      whole_bytes = AddBytes(whole_bytes, s.layouts[std::size_t(t.value)].bytes());
    }
  }
  for (const RegionTensor& t : region->tensors) row_bytes = AddBytes(row_bytes, t.pitch_bytes);
  const std::int64_t l2 = Caches().l2 ? Caches().l2 : kUnknownL2;
  if (whole_bytes > l2 / 4 || MultiplyBytes(region->rows, row_bytes) <= OuterCache()) return false;
  const double row_ns = region->estimated_ns / double(region->rows);
  const std::int64_t fits =
      std::max<std::int64_t>(l2 / 4 / std::max<std::int64_t>(row_bytes, 1), 1);
  const std::int64_t shared = (region->rows + region->threads * kBlocksPerThread - 1) /
                              (region->threads * kBlocksPerThread);
  const std::int64_t least = std::int64_t(kBlockNs / row_ns) + 1;
  region->block = std::max(std::min(fits, shared), std::min(least, fits));
  return region->block < region->rows;
}

// The plan of a call of a block, null if another kernel than that of all rows would take it.
// tensors: by value, cut where the region cuts.
Plan* PlanOf(const Specialisation& s, int call, std::span<const DLTensor* const> tensors) {
  const PlannedCall& planned = s.calls[std::size_t(call)];
  const GraphNode& n = s.graph->nodes[std::size_t(planned.node)];
  anyop_value frame[kMaxParams + kMaxResults];
  FillFrame({*s.graph, s.symbols, tensors, s.scalars}, n, frame, nullptr);
  try {
    const HeldPlan made = GetPlan(*n.op, frame);
    if (made->kernel != planned.plan->kernel || made->copied || made->is_empty) return nullptr;
    Acquire(made.get());
    return made.get();
  } catch (const Error&) {
    return nullptr;
  }
}

// Every call takes a block with the kernel that takes all rows, or there is no region: another
// kernel may round differently, and regions change no bit. tensors: of the specialisation, by
// value; they are the same again afterwards.
bool AddPlans(const Specialisation& s, Region* region, std::vector<const DLTensor*>* tensors) {
  std::vector<DLTensor> cut;
  cut.reserve(region->tensors.size());
  for (RegionTensor& t : region->tensors) {
    DLTensor& made = cut.emplace_back(s.tensors[std::size_t(t.value)]);
    made.ndim = t.rank;
    made.shape = t.shape;
    made.strides = t.is_contiguous ? nullptr : t.strides;
    (*tensors)[std::size_t(t.value)] = &made;
  }
  const auto add = [&](std::int64_t rows, Plan* RegionCall::*plan) {
    for (RegionTensor& t : region->tensors) t.shape[0] = rows;
    for (RegionCall& call : region->calls) {
      call.*plan = PlanOf(s, call.call, *tensors);
      if (!(call.*plan)) return false;
    }
    return true;
  };
  const std::int64_t rest = region->rows % region->block;
  const bool is_right =
      add(region->block, &RegionCall::block) && (!rest || add(rest, &RegionCall::rest));
  for (RegionTensor& t : region->tensors) {
    t.shape[0] = region->block;
    (*tensors)[std::size_t(t.value)] = s.tensor_at[std::size_t(t.value)];
  }
  if (!is_right) ReleasePlans(*region);
  return is_right;
}

}  // namespace

void ReleasePlans(Region& region) {
  for (RegionCall& c : region.calls) {
    Release(c.block);
    Release(c.rest);
    c.block = c.rest = nullptr;
  }
}

void FindRegions(Specialisation* s, std::int64_t block_rows) {
  std::vector<const DLTensor*> tensors;
  for (const RowRun& run : FindRowRuns(*s)) {
    if (!block_rows && EstimatedNs(*s, run) < kWorthwhileNs) continue;
    Region region = RegionOf(*s, run);
    if (!ChooseBlock(*s, run, block_rows, &region)) continue;
    if (tensors.empty()) tensors = s->tensor_at;
    if (!AddPlans(*s, &region, &tensors)) continue;
    for (int i = region.first; i <= region.last; ++i) {
      s->calls[std::size_t(i)].region = int(s->regions.size());
    }
    s->regions.push_back(std::move(region));
  }
}

}  // namespace anyop
