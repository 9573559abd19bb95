// SPDX-License-Identifier: Apache-2.0
#include "graph/specialise/place_memory.h"

#include <algorithm>

#include "graph/ir/alias.h"
#include "platform/byte_count.h"
#include "platform/error.h"

namespace anyop {
namespace {

constexpr int kRounds = 50;  // of the search for a smaller arena

// Steps: 0 copies inputs, i + 1 runs node i, the last copies outputs.
class Placer {
 public:
  Placer(Specialisation* s, bool share)
      : s_(*s),
        graph_(*s->graph),
        share_(share),
        last_step_(int(graph_.nodes.size()) + 1),
        last_use_(graph_.values.size(), -1),
        buffer_(graph_.values.size(), -1) {
    s_.places.resize(graph_.values.size());
  }

  void Run() {
    FindLastUses();
    // Each step takes only values to which none before has given a place. Regions come before
    // calls: what they keep in the memory of their threads is no buffer of the arena.
    PlaceGiven();
    PlaceOutputs();
    for (Region& region : s_.regions) PlaceRegion(&region);
    for (PlannedCall& call : s_.calls) PlaceCall(&call);
    s_.memory = PlanMemory(s_.buffers, kRounds);
    for (std::size_t v = 0; v < buffer_.size(); ++v) {
      if (buffer_[v] < 0) continue;
      s_.places[v] = {MemoryPlace::kArena, -1, s_.memory.offsets[std::size_t(buffer_[v])]};
    }
    for (PlannedCall& call : s_.calls) {
      if (call.workspace >= 0) call.workspace = s_.memory.offsets[std::size_t(call.workspace)];
    }
    for (Region& region : s_.regions) {
      if (region.memory >= 0) region.memory = s_.memory.offsets[std::size_t(region.memory)];
    }
    for (std::size_t v = 0; v < s_.places.size(); ++v) {
      s_.places[v] = s_.places[std::size_t(graph_.Root(int(v)))];
    }
  }

 private:
  const Layout& layout(int value) const { return s_.layouts[std::size_t(value)]; }
  MemoryPlace& place(int value) { return s_.places[std::size_t(value)]; }

  void FindLastUses() {
    for (int i = 0; i < int(graph_.nodes.size()); ++i) {
      const GraphNode& node = graph_.nodes[std::size_t(i)];
      const auto use = [&](int v) { last_use_[std::size_t(graph_.Root(v))] = i + 1; };
      ForArguments(node, use);
      for (const int v : node.results) {
        if (v >= 0) use(v);
      }
    }
    for (const GraphOutput& o : graph_.outputs) {
      last_use_[std::size_t(graph_.Root(o.value))] = last_step_;
    }
  }

  int AddBuffer(std::int64_t bytes, int first, int last) {
    s_.buffers.push_back({bytes, share_ ? first : 0, share_ ? last : last_step_});
    s_.unshared_bytes = AddBytes(s_.unshared_bytes, AlignBytes(bytes, kArenaAlignment));
    return int(s_.buffers.size()) - 1;
  }

  void PlaceGiven() {
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      if (!graph_.values[v].array.is_none()) s_.places[v].kind = MemoryPlace::kFixed;
    }
    for (std::size_t k = 0; k < graph_.inputs.size(); ++k) {
      place(graph_.inputs[k]) = {MemoryPlace::kInput, int(k), 0};
    }
    for (const BoundaryCopy& c : s_.copies_in) {
      place(c.value).kind = MemoryPlace::kNowhere;
      const int last = std::max(0, last_use_[std::size_t(c.value)]);
      buffer_[std::size_t(c.value)] = AddBuffer(layout(c.value).bytes(), 0, LastOf(last));
    }
  }

  bool CoversRoot(int value) const {
    const Layout& l = layout(value);
    return l.offset == 0 && l.is_contiguous() && l.bytes() == layout(graph_.Root(value)).bytes();
  }

  // A result that is returned whole is computed in the caller's memory. All else is copied there:
  // parts of a result, inputs and state, and a result that is returned a second time.
  void PlaceOutputs() {
    for (std::size_t k = 0; k < graph_.outputs.size(); ++k) {
      const int value = graph_.outputs[k].value, root = graph_.Root(value);
      const bool is_result = graph_.value(root).kind == GraphValue::kResult;
      if (is_result && place(root).kind == MemoryPlace::kNowhere && CoversRoot(value)) {
        place(root) = {MemoryPlace::kOutput, int(k), 0};
      } else {
        s_.copies_out.push_back({value, int(k)});
      }
    }
  }

  void PlaceCall(PlannedCall* call) {
    const GraphNode& node = graph_.nodes[std::size_t(call->node)];
    const int step = call->node + 1;
    for (int r = 0; r < int(node.results.size()); ++r) {
      const int value = node.results[std::size_t(r)];
      if (value < 0 || IsInto(node, r) || place(value).kind != MemoryPlace::kNowhere) continue;
      int& buffer = buffer_[std::size_t(value)];
      const int over = share_ ? FindOver(*call, node, r) : -1;
      const int last = std::max(step, last_use_[std::size_t(value)]);
      if (over >= 0) {
        buffer = buffer_[std::size_t(over)];
        s_.buffers[std::size_t(buffer)].last = LastOf(last);
        last_use_[std::size_t(over)] = -1;  // nobody else takes it
      } else {
        buffer = AddBuffer(layout(value).bytes(), FirstOf(step), LastOf(last));
      }
    }
    const std::uint64_t workspace = call->plan->workspace_bytes;
    // A general call takes its workspace from the thread's arena, as single calls do; a call of a
    // region has it in the memory of the region's threads.
    if (!workspace || call->mode == PlannedCall::kGeneral || call->region >= 0) return;
    call->workspace = AddBuffer(std::int64_t(workspace), step, step);
  }

  // All calls of a region run at once, on other rows each, so that their buffers live as long as
  // the region.
  const Region* RegionAt(int step) const {
    if (step < 1 || step > int(s_.calls.size())) return nullptr;
    const int region = s_.calls[std::size_t(step - 1)].region;
    return region < 0 ? nullptr : &s_.regions[std::size_t(region)];
  }
  int FirstOf(int step) const {
    const Region* region = RegionAt(step);
    return region ? region->first + 1 : step;
  }
  int LastOf(int step) const {
    const Region* region = RegionAt(step);
    return region ? region->last + 1 : step;
  }

  // A value that only a region uses is never whole: a block of it lies in the memory of each of the
  // region's threads, beside the workspaces.
  void PlaceRegion(Region* region) {
    std::vector<Lifetime> buffers;
    std::vector<std::pair<int, int>> roots;  // with their buffers
    for (RegionCall& c : region->calls) {
      const GraphNode& node = graph_.nodes[std::size_t(s_.calls[std::size_t(c.call)].node)];
      for (int r = 0; share_ && r < int(node.results.size()); ++r) {
        const int root = node.results[std::size_t(r)];
        if (root < 0 || IsInto(node, r) || place(root).kind != MemoryPlace::kNowhere) continue;
        if (last_use_[std::size_t(root)] > region->last + 1) continue;
        roots.emplace_back(root, int(buffers.size()));
        buffers.push_back({layout(root).bytes() / region->rows * region->block, c.call + 1,
                           std::max(c.call + 1, last_use_[std::size_t(root)])});
      }
      const std::uint64_t workspace =
          std::max(c.block->workspace_bytes, c.rest ? c.rest->workspace_bytes : 0);
      if (!workspace) continue;
      c.workspace = std::int64_t(buffers.size());
      buffers.push_back({std::int64_t(workspace), c.call + 1, c.call + 1});
    }
    if (buffers.empty()) return;
    const MemoryPlan plan = PlanMemory(buffers, 0);
    for (const auto& [root, buffer] : roots) {
      const std::int64_t at = plan.offsets[std::size_t(buffer)];
      place(root) = {MemoryPlace::kRegion, -1, at};
      for (RegionTensor& t : region->tensors) {
        if (graph_.Root(t.value) == root) t.local = at + layout(t.value).offset;
      }
    }
    for (RegionCall& c : region->calls) {
      if (c.workspace >= 0) c.workspace = plan.offsets[std::size_t(c.workspace)];
    }
    region->thread_bytes = std::max<std::int64_t>(plan.peak_bytes, kArenaAlignment);
    region->memory = AddBuffer(MultiplyBytes(region->thread_bytes, region->threads),
                               region->first + 1, region->last + 1);
  }

  // The root of an argument that result r may take the memory of; -1: none.
  int FindOver(const PlannedCall& call, const GraphNode& node, int r) const {
    const Plan& plan = *call.plan;
    const int n_params = node.op->n_params;
    const TensorSlot* slots = plan.slots;
    const auto mine = std::find_if(slots, slots + plan.n_slots,
                                   [&](const TensorSlot& s) { return s.index == n_params + r; });
    if (mine == slots + plan.n_slots) return -1;
    for (int k = 0; k < plan.n_slots; ++k) {
      if (slots[k].index >= n_params || !(mine->over >> k & 1)) continue;
      const int value = node.arguments[slots[k].index].values[0], root = graph_.Root(value);
      const bool dies = last_use_[std::size_t(root)] == call.node + 1;
      if (dies && buffer_[std::size_t(root)] >= 0 && IsAloneOrOver(call, node, mine->over, root) &&
          IsCutAlike(call, root, node.results[std::size_t(r)])) {
        return root;
      }
    }
    return -1;
  }
  // Whether a result `value` in the memory of `root` is cut as all that the region reads there:
  // else a block would write what another block has yet to read.
  bool IsCutAlike(const PlannedCall& call, int root, int value) const {
    if (call.region < 0) return true;
    const Region& region = s_.regions[std::size_t(call.region)];
    std::int64_t pitch = 0;
    for (const RegionTensor& t : region.tensors) {
      if (t.value == value) pitch = t.pitch_bytes;
    }
    for (const RegionCall& c : region.calls) {
      const GraphNode& node = graph_.nodes[std::size_t(s_.calls[std::size_t(c.call)].node)];
      for (std::size_t i = 0; i < node.arguments.size(); ++i) {
        for (const int v : node.arguments[i].values) {
          if (graph_.Root(v) != root) continue;
          const int k = c.tensors[i];
          const std::int64_t offset = layout(v).offset;
          if (k < 0 || region.tensors[std::size_t(k)].pitch_bytes != pitch || offset >= pitch) {
            return false;
          }
        }
      }
    }
    return true;
  }
  // Whether every tensor of the node in this root's memory is an argument that the result may lie
  // on.
  bool IsAloneOrOver(const PlannedCall& call, const GraphNode& node, std::uint64_t over,
                     int root) const {
    std::uint64_t allowed = 0;  // parameters
    for (int k = 0; k < call.plan->n_slots; ++k) {
      if (over >> k & 1) allowed |= 1ull << call.plan->slots[k].index;
    }
    for (std::size_t i = 0; i < node.arguments.size(); ++i) {
      for (const int v : node.arguments[i].values) {
        if (graph_.Root(v) != root) continue;
        if (!(allowed >> i & 1) || !CoversRoot(v)) return false;
      }
    }
    for (std::size_t r = 0; r < node.results.size(); ++r) {
      if (node.results[r] >= 0 && graph_.Root(node.results[r]) == root) return false;
    }
    return true;
  }

  Specialisation& s_;
  const Graph& graph_;
  const bool share_;
  const int last_step_;
  std::vector<int> last_use_;  // by root: the step
  std::vector<int> buffer_;    // by root; -1: not in the arena
};

}  // namespace

void PlaceMemory(Specialisation* s, bool share) { Placer(s, share).Run(); }

}  // namespace anyop
