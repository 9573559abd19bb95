// SPDX-License-Identifier: Apache-2.0
#include "graph/replay/ready_region.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "graph/specialise/specialisation.h"
#include "platform/threads.h"
#include "runtime/run/call.h"
#include "runtime/run/memory_check.h"

namespace anyop {

ReadyRegion::ReadyRegion(const Specialisation& s, const Region& region,
                         std::span<const DLTensor> tensors, const anyop_value* frames)
    : s_(s), region_(region), tensors_(tensors), frames_(frames) {
  for (int i = 0; i < region.threads; ++i) AddSlot(frames);
  for (const NumberPlace& n : s.numbers) {
    for (const RegionCall& c : region.calls) {
      const std::size_t from = s.calls[std::size_t(c.call)].frame;
      if (n.at < from || n.at >= from + c.tensors.size()) continue;
      numbers_.push_back({n.at, c.frame + n.at - from});
    }
  }
}

void ReadyRegion::AddSlot(const anyop_value* frames) {
  Slot& slot = slots_.emplace_back();
  slot.sizes.resize(region_.tensors.size() * 2 * kMaxRank);
  for (std::size_t k = 0; k < region_.tensors.size(); ++k) {
    const RegionTensor& t = region_.tensors[k];
    std::int64_t* shape = slot.sizes.data() + 2 * kMaxRank * k;
    std::copy_n(t.shape, t.rank, shape);
    std::copy_n(t.strides, t.rank, shape + kMaxRank);
    DLTensor& cut = slot.tensors.emplace_back(tensors_[std::size_t(t.value)]);
    cut.ndim = t.rank;
    cut.shape = shape;
    cut.strides = t.is_contiguous ? nullptr : shape + kMaxRank;
  }
  for (const RegionCall& c : region_.calls) {
    const anyop_value* from = frames + s_.calls[std::size_t(c.call)].frame;
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
      anyop_value& v = slot.frames.emplace_back(from[i]);
      if (c.tensors[i] >= 0) v.t = &slot.tensors[std::size_t(c.tensors[i])];
    }
    RunState& state = slot.states.emplace_back(*c.block);
    // Without a rest its context is never used, but keeps the numbers of calls the same.
    for (const Plan* plan : {c.block, c.rest}) {
      anyop_context context = (plan ? plan : c.block)->context;
      context.runtime = &state;
      context.threads = 1;  // the threads are shared among blocks
      (plan == c.block ? slot.blocks : slot.rests).push_back(context);
    }
  }
}

void ReadyRegion::MoveTo(char* arena) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    char* mine = arena + region_.memory + std::int64_t(i) * region_.thread_bytes;
    for (std::size_t k = 0; k < region_.tensors.size(); ++k) {
      if (region_.tensors[k].local >= 0)
        slots_[i].tensors[k].data = mine + region_.tensors[k].local;
    }
    for (std::size_t k = 0; k < region_.calls.size(); ++k) {
      if (region_.calls[k].workspace < 0) continue;
      slots_[i].blocks[k].workspace = slots_[i].rests[k].workspace =
          mine + region_.calls[k].workspace;
    }
  }
}

void ReadyRegion::SetNumbers() {
  for (Slot& slot : slots_) {
    for (const Number& n : numbers_) slot.frames[n.to] = frames_[n.from];
  }
}

bool ReadyRegion::Cut(Slot& slot, std::int64_t b) const {
  const std::int64_t begin = b * region_.block;
  const std::int64_t rows = std::min(region_.block, region_.rows - begin);
  for (std::size_t k = 0; k < region_.tensors.size(); ++k) {
    const RegionTensor& t = region_.tensors[k];
    DLTensor& cut = slot.tensors[k];
    cut.shape[0] = rows;
    if (t.local >= 0) continue;
    cut.data = static_cast<char*>(tensors_[std::size_t(t.value)].data) + begin * t.pitch_bytes;
  }
  return rows < region_.block;
}

void ReadyRegion::CheckMemory(int* call) {
  Cut(slots_[0], 0);
  for (const RegionCall& c : region_.calls) {
    *call = c.call;
    anyop::CheckMemory(*c.block->op, *c.block, slots_[0].frames.data() + c.frame);
  }
}

int ReadyRegion::RunCall(Slot& slot, std::size_t k, bool is_rest) const {
  const RegionCall& c = region_.calls[k];
  const anyop_context& context = (is_rest ? slot.rests : slot.blocks)[k];
  return (is_rest ? c.rest : c.block)->run(&context, slot.frames.data() + c.frame);
}

// Relaxed: a claim has to be unique, nothing more. ParallelFor orders the memory of its threads.
void ReadyRegion::ClaimBlocks(Slot& slot) {
  while (!has_failed_.load(std::memory_order_relaxed)) {
    const std::int64_t b = next_.fetch_add(1, std::memory_order_relaxed);
    if (b >= region_.blocks()) return;
    const bool is_rest = Cut(slot, b);
    for (std::size_t k = 0; k < region_.calls.size(); ++k) {
      const int code = RunCall(slot, k, is_rest);
      if (!code) [[likely]]
        continue;
      slot.failure = {region_.calls[k].call, code, &slot.states[k]};
      has_failed_.store(true, std::memory_order_relaxed);
      return;
    }
  }
}

void ReadyRegion::RunSlots(void* self, std::int64_t begin, std::int64_t end) {
  ReadyRegion& region = *static_cast<ReadyRegion*>(self);
  for (std::int64_t i = begin; i < end; ++i) region.ClaimBlocks(region.slots_[std::size_t(i)]);
}

ReadyRegion::Failure ReadyRegion::Run() {
  next_.store(0, std::memory_order_relaxed);
  if (slots_.size() == 1) {
    ClaimBlocks(slots_[0]);
  } else {
    ParallelFor(region_.threads, std::int64_t(slots_.size()), 1, &RunSlots, this,
                region_.estimated_ns);
  }
  Failure first;
  if (!has_failed_.load(std::memory_order_relaxed)) [[likely]]
    return first;
  has_failed_.store(false, std::memory_order_relaxed);
  for (Slot& slot : slots_) {
    const Failure f = std::exchange(slot.failure, {});
    // Of several the first of the program, as if the calls had run one after the other.
    if (f.call >= 0 && (first.call < 0 || f.call < first.call)) first = f;
  }
  return first;
}

ReadyRegion::Failure ReadyRegion::RunAlone(bool is_observed, std::span<double> ns, int* call) {
  Slot& slot = slots_[0];
  for (std::int64_t b = 0; b < region_.blocks(); ++b) {
    const bool is_rest = Cut(slot, b);
    for (std::size_t k = 0; k < region_.calls.size(); ++k) {
      const RegionCall& c = region_.calls[k];
      *call = c.call;
      const auto start = std::chrono::steady_clock::now();
      if (is_observed) {
        Plan& plan = *(is_rest ? c.rest : c.block);
        const GraphNode& node = s_.graph->nodes[std::size_t(s_.calls[std::size_t(c.call)].node)];
        anyop::Run(*node.op, plan, slot.frames.data() + c.frame);
      } else if (const int code = RunCall(slot, k, is_rest)) {
        return {c.call, code, &slot.states[k]};
      }
      const std::chrono::duration<double, std::nano> took =
          std::chrono::steady_clock::now() - start;
      if (!ns.empty()) ns[std::size_t(s_.calls[std::size_t(c.call)].node)] += took.count();
    }
  }
  return {};
}

}  // namespace anyop
