// SPDX-License-Identifier: Apache-2.0
#include "graph/replay/arena_watch.h"

#include <algorithm>
#include <cstring>

#include "graph/ir/alias.h"
#include "platform/error.h"

namespace anyop {

ArenaWatch::ArenaWatch(const Specialisation& s, char* arena)
    : s_(s),
      arena_(arena),
      blocks_(ArenaBlocks(s)),
      before_(std::size_t(s.memory.peak_bytes), char(0xff)) {
  std::memset(arena_, 0xff, before_.size());  // NaN in every dtype of floats
}

void ArenaWatch::Start() { std::copy_n(arena_, before_.size(), before_.begin()); }

bool ArenaWatch::MayWrite(const ArenaBlock& block, int first, int last) const {
  if (block.root < 0) return block.first <= last && block.last >= first;
  for (int i = first; i <= last; ++i) {
    const GraphNode& node = s_.graph->nodes[std::size_t(i)];
    const auto is_it = [&](int v) { return v >= 0 && s_.graph->Root(v) == block.root; };
    const std::vector<int> written = WrittenValues(node);
    if (std::any_of(node.results.begin(), node.results.end(), is_it) ||
        std::any_of(written.begin(), written.end(), is_it)) {
      return true;
    }
  }
  return false;
}

void ArenaWatch::After(int first, int last) {
  std::vector<const ArenaBlock*> mine;
  for (const ArenaBlock& b : blocks_) {
    if (MayWrite(b, first, last)) mine.push_back(&b);
  }
  std::sort(mine.begin(), mine.end(),
            [](const ArenaBlock* a, const ArenaBlock* b) { return a->at < b->at; });
  std::int64_t end = 0;
  for (const ArenaBlock* b : mine) {
    Compare(end, b->at, first);
    end = std::max(end, b->at + b->bytes);
  }
  Compare(end, std::int64_t(before_.size()), first);
  for (const ArenaBlock& b : blocks_) {
    if (b.last >= first && b.last <= last) Poison(b, last);
  }
  Start();
}

void ArenaWatch::Compare(std::int64_t begin, std::int64_t end, int node) const {
  if (begin >= end) return;
  if (!std::memcmp(arena_ + begin, before_.data() + begin, std::size_t(end - begin))) return;
  while (arena_[begin] == before_[std::size_t(begin)]) ++begin;
  std::string what = "memory that holds nothing";
  for (const ArenaBlock& b : blocks_) {
    if (b.first <= node && node <= b.last && b.at <= begin && begin < b.at + b.bytes) what = b.name;
  }
  Fail(ANYOP_INTERNAL,
       InNode(*s_.graph, node,
              s_.graph->nodes[std::size_t(node)].op->Message(
                  "it changed " + what + ", at byte " + std::to_string(begin) +
                  " of the arena. This is a defect of the operator. Please report it.")));
}

// A result may lie over an argument that ends here: what lives on in the same place is kept.
void ArenaWatch::Poison(const ArenaBlock& block, int last) {
  for (const ArenaBlock& b : blocks_) {
    const bool lives = b.first <= last && b.last > last;
    if (lives && b.at < block.at + block.bytes && block.at < b.at + b.bytes) return;
  }
  std::memset(arena_ + block.at, 0xff, std::size_t(block.bytes));
}

}  // namespace anyop
