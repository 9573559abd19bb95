// SPDX-License-Identifier: Apache-2.0
#include "graph/specialise/check_places.h"

#include <algorithm>
#include <map>

#include "graph/ir/alias.h"

namespace anyop {
namespace {

class PlaceChecker {
 public:
  explicit PlaceChecker(const Specialisation& s) : s_(s), graph_(*s.graph) {}

  std::vector<ArenaBlock> Blocks() {
    AddValues();
    AddWorkspaces();
    std::sort(blocks_.begin(), blocks_.end(),
              [](const ArenaBlock& a, const ArenaBlock& b) { return a.first < b.first; });
    return std::move(blocks_);
  }

  std::string Check() {
    const std::vector<ArenaBlock> blocks = Blocks();
    std::vector<const ArenaBlock*> alive;
    for (const ArenaBlock& b : blocks) {
      if (b.at < 0 || b.at % kArenaAlignment || b.at + b.bytes > s_.memory.peak_bytes) {
        return Show(b) + " does not lie in the arena of " + std::to_string(s_.memory.peak_bytes) +
               " bytes, or is not aligned";
      }
      std::erase_if(alive, [&](const ArenaBlock* a) { return a->last < b.first; });
      for (const ArenaBlock* a : alive) {
        const bool meets = a->at < b.at + b.bytes && b.at < a->at + a->bytes;
        if (meets && !MayLieOver(b, *a)) return Show(b) + " overlaps " + Show(*a);
      }
      alive.push_back(&b);
    }
    return "";
  }

 private:
  static std::string Show(const ArenaBlock& b) {
    return b.name + " at [" + std::to_string(b.at) + ", " + std::to_string(b.at + b.bytes) +
           ") of nodes " + std::to_string(b.first) + " to " + std::to_string(b.last);
  }

  // The nodes of a region run at once, on other rows each: what one uses, all may use.
  int FirstOf(int node) const {
    const int region = RegionOf(node);
    return region < 0 ? node : s_.regions[std::size_t(region)].first;
  }
  int LastOf(int node) const {
    const int region = RegionOf(node);
    return region < 0 ? node : s_.regions[std::size_t(region)].last;
  }
  int RegionOf(int node) const {
    const bool is_node = node >= 0 && node < int(s_.calls.size());
    return is_node ? s_.calls[std::size_t(node)].region : -1;
  }

  void AddValues() {
    std::map<int, ArenaBlock> by_root;
    const auto use = [&](int value, int node) {
      const int root = graph_.Root(value);
      const MemoryPlace& place = s_.places[std::size_t(value)];
      if (place.kind != MemoryPlace::kArena) return;
      const GraphValue& v = graph_.value(root);
      const int first = v.kind == GraphValue::kResult ? FirstOf(v.node) : -1;
      ArenaBlock& b = by_root
                          .try_emplace(root, ArenaBlock{v.name, place.offset,
                                                        s_.layouts[std::size_t(root)].bytes(),
                                                        first, LastOf(first), root})
                          .first->second;
      b.last = std::max(b.last, LastOf(node));
    };
    for (int i = 0; i < int(graph_.nodes.size()); ++i) {
      const GraphNode& node = graph_.nodes[std::size_t(i)];
      ForArguments(node, [&](int v) { use(v, i); });
      for (const int v : node.results) {
        if (v >= 0) use(v, i);
      }
    }
    for (const GraphOutput& o : graph_.outputs) use(o.value, int(graph_.nodes.size()));
    for (auto& [root, block] : by_root) {
      if (block.bytes) blocks_.push_back(std::move(block));
    }
  }

  void AddWorkspaces() {
    for (int i = 0; i < int(s_.calls.size()); ++i) {
      const PlannedCall& c = s_.calls[std::size_t(i)];
      if (c.workspace < 0) continue;
      blocks_.push_back({"the workspace of node " + std::to_string(i), c.workspace,
                         std::int64_t(c.plan->workspace_bytes), i, i});
    }
    for (const Region& r : s_.regions) {
      if (r.memory < 0) continue;
      blocks_.push_back(
          {"the memory of a region", r.memory, r.thread_bytes * r.threads, r.first, r.last});
    }
  }

  // Whether one is a result that is made over an argument at its last use, the other that argument,
  // or one that it became in several such steps.
  bool MayLieOver(const ArenaBlock& a, const ArenaBlock& b) const {
    if (a.root < 0 || b.root < 0 || a.at != b.at) return false;
    return IsMadeOver(a.root, b.root) || IsMadeOver(b.root, a.root);
  }
  bool IsMadeOver(int later, int earlier) const {
    const int made_by = graph_.value(later).node;
    if (made_by < 0) return false;
    const GraphNode& node = graph_.nodes[std::size_t(made_by)];
    const std::vector<Result>& results = node.op->contract->forms[0].results;
    const std::size_t r = std::size_t(graph_.value(later).result);
    for (std::size_t i = 0; i < node.arguments.size(); ++i) {
      const std::vector<int>& values = node.arguments[i].values;
      if (values.size() != 1 || !(results[r].over >> i & 1)) continue;
      const int root = graph_.Root(values[0]);
      const MemoryPlace& place = s_.places[std::size_t(root)];
      if (place.kind != MemoryPlace::kArena || LastUse(root) != made_by ||
          place.offset != s_.places[std::size_t(later)].offset) {
        continue;
      }
      if (root == earlier || IsMadeOver(root, earlier)) return true;
    }
    return false;
  }
  int LastUse(int root) const {
    int last = -1;
    for (int i = 0; i < int(graph_.nodes.size()); ++i) {
      const GraphNode& node = graph_.nodes[std::size_t(i)];
      const auto use = [&](int v) {
        if (v >= 0 && graph_.Root(v) == root) last = i;
      };
      ForArguments(node, use);
      for (const int v : node.results) use(v);
    }
    for (const GraphOutput& o : graph_.outputs) {
      if (graph_.Root(o.value) == root) last = int(graph_.nodes.size());
    }
    return last;
  }

  const Specialisation& s_;
  const Graph& graph_;
  std::vector<ArenaBlock> blocks_;
};

}  // namespace

std::string CheckPlaces(const Specialisation& s) { return PlaceChecker(s).Check(); }

std::vector<ArenaBlock> ArenaBlocks(const Specialisation& s) { return PlaceChecker(s).Blocks(); }

}  // namespace anyop
