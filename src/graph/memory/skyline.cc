// SPDX-License-Identifier: Apache-2.0
// A plan is a wall: time from left to right, memory from the bottom up, each buffer a brick whose
// place in time is given. The lowest stretch of the wall's upper edge (the skyline)
// gets the brick that fits it best; where none fits it is raised to its lower neighbour. After each
// round the bricks that ended too high are laid earlier: they count for more.
#include "graph/memory/skyline.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <utility>

namespace anyop {
namespace {

// The weight of a brick that ended above the bound grows by the first factor. Noise lets rounds
// differ that would otherwise lay the same wall again.
constexpr double kMoreForTheHigh = 1.5, kNoise = 0.1;
constexpr double kFlushLeftAndRight = 4e18, kFlush = 2e18;  // fits that leave no gap count for most
constexpr int kPatience = 25;                               // rounds in which nothing is won

class Wall {
 public:
  explicit Wall(std::span<const Lifetime> buffers) : weights_(buffers.size(), 1) {
    std::vector<int> times;
    for (const Lifetime& b : buffers) {
      times.push_back(b.first);
      times.push_back(b.last + 1);
    }
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    const auto column = [&](int time) {
      return int(std::lower_bound(times.begin(), times.end(), time) - times.begin());
    };
    starts_ = ends_ = Lists(times.size(), buffers.size());
    last_ = int(times.size()) - 1;
    for (const Lifetime& b : buffers) {
      bricks_.push_back({column(b.first), column(b.last + 1), b.bytes, 0});
      bricks_.back().area = double(b.bytes) * (b.last + 1 - b.first);
    }
  }

  // Lays all bricks; returns how high the wall is. Each round is another one.
  std::int64_t Build(std::vector<std::int64_t>* offsets) {
    Begin();
    offsets->assign(bricks_.size(), 0);
    std::int64_t peak = 0;
    for (std::size_t left = bricks_.size(); left;) {
      const int lowest = TakeLowest();
      const std::int64_t height = stretch(lowest).height;
      const int brick = Choose(lowest, stretch(lowest).end);
      if (brick < 0) {
        Raise(lowest);
        continue;
      }
      (*offsets)[std::size_t(brick)] = height;
      peak = std::max(peak, height + bricks_[std::size_t(brick)].bytes);
      Lay(brick, lowest);
      --left;
    }
    return peak;
  }

  // Bricks that end above `height` are chosen earlier from now on.
  void Promote(const std::vector<std::int64_t>& offsets, std::int64_t height) {
    for (std::size_t i = 0; i < bricks_.size(); ++i) {
      if (offsets[i] + bricks_[i].bytes > height) weights_[i] *= kMoreForTheHigh;
    }
  }

 private:
  // A list of bricks for each column.
  struct Lists {
    Lists() = default;
    Lists(std::size_t columns, std::size_t bricks) : first(columns, -1), next(bricks, -1) {}
    void Clear() { std::fill(first.begin(), first.end(), -1); }
    void Add(int column, int brick) {
      next[std::size_t(brick)] = std::exchange(first[std::size_t(column)], brick);
    }
    std::vector<int> first, next;
  };
  struct Brick {
    int begin, end;  // columns
    std::int64_t bytes;
    double area;
  };
  // Of the skyline, from a column to `end`; 0 where none begins.
  struct Stretch {
    int end = 0, before = -1;  // before: where its left neighbour begins
    std::int64_t height = 0;
  };
  Stretch& stretch(int begin) { return edge_[std::size_t(begin)]; }

  void Begin() {
    is_laid_.assign(bricks_.size(), false);
    starts_.Clear();
    ends_.Clear();
    for (int i = int(bricks_.size()) - 1; i >= 0; --i) {
      starts_.Add(bricks_[std::size_t(i)].begin, i);
      ends_.Add(bricks_[std::size_t(i)].end, i);
    }
    heights_.clear();
    edge_.assign(std::size_t(last_), {});
    Put(0, {last_, -1, 0});
  }

  struct Choice {
    int brick = -1;
    double worth = -1;
  };

  // The brick for a stretch, -1 if none fits. The columns within are searched only where no brick
  // is flush with an end: a flush brick is nearly always worth more, and stretches can be long.
  int Choose(int begin, int end) {
    Choice best;
    ForLeft(&starts_, begin, [&](int i) {
      const int its_end = bricks_[std::size_t(i)].end;
      if (its_end <= end) Consider(i, its_end == end ? kFlushLeftAndRight : kFlush, &best);
    });
    ForLeft(&ends_, end, [&](int i) {
      if (bricks_[std::size_t(i)].begin > begin) Consider(i, kFlush, &best);
    });
    const bool is_flush = best.brick >= 0;
    for (int c = begin + 1; !is_flush && c < end; ++c) {
      ForLeft(&starts_, c, [&](int i) {
        if (bricks_[std::size_t(i)].end < end) Consider(i, 0, &best);
      });
    }
    if (best.brick >= 0) is_laid_[std::size_t(best.brick)] = true;
    return best.brick;
  }
  void Consider(int brick, double fit, Choice* best) {
    const std::size_t i = std::size_t(brick);
    const double worth = (fit + bricks_[i].area) * weights_[i] * (1 + kNoise * NextRandom());
    if (worth > best->worth) *best = {brick, worth};
  }
  // Calls f(brick) for those that are not laid yet; drops the others from the list.
  template <class F>
  void ForLeft(Lists* lists, int column, F&& f) {
    for (int* at = &lists->first[std::size_t(column)]; *at >= 0;) {
      int& next = lists->next[std::size_t(*at)];
      if (is_laid_[std::size_t(*at)]) {
        *at = next;
      } else {
        f(*at);
        at = &next;
      }
    }
  }

  void Raise(int begin) {
    Stretch s = stretch(begin);
    std::int64_t height = std::numeric_limits<std::int64_t>::max();
    if (s.before >= 0) height = stretch(s.before).height;
    if (s.end < last_) height = std::min(height, stretch(s.end).height);
    Put(begin, {s.end, s.before, height});
    Join(begin);
  }

  void Lay(int brick, int begin) {
    const Brick& b = bricks_[std::size_t(brick)];
    const Stretch s = stretch(begin);
    if (begin < b.begin) Put(begin, {b.begin, s.before, s.height});
    if (b.end < s.end) Put(b.end, {s.end, b.begin, s.height});
    Put(b.begin, {b.end, begin < b.begin ? begin : s.before, s.height + b.bytes});
    Join(b.begin);
  }
  // A stretch with neighbours that are as high.
  void Join(int begin) {
    const Stretch s = stretch(begin);
    if (s.end < last_ && stretch(s.end).height == s.height) Swallow(begin);
    if (s.before >= 0 && stretch(s.before).height == s.height) Swallow(s.before);
  }
  void Swallow(int begin) {
    Stretch &s = stretch(begin), &right = stretch(s.end);
    s.end = right.end;
    right.end = 0;
    if (s.end < last_) stretch(s.end).before = begin;
  }

  void Put(int begin, const Stretch& s) {
    stretch(begin) = s;
    if (s.end < last_) stretch(s.end).before = begin;
    heights_.emplace_back(s.height, begin);
    std::push_heap(heights_.begin(), heights_.end(), std::greater<>());
  }
  // The column where the lowest stretch begins, the first of several. Entries of the heap are not
  // removed when a stretch changes: those that no longer say what is there are skipped.
  int TakeLowest() {
    for (;;) {
      std::pop_heap(heights_.begin(), heights_.end(), std::greater<>());
      const auto [height, begin] = heights_.back();
      heights_.pop_back();
      if (stretch(begin).end && stretch(begin).height == height) return begin;
    }
  }

  double NextRandom() {  // 0 to 1
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return double(random_ >> 11) * 0x1p-53;
  }

  std::vector<Brick> bricks_;
  int last_ = 0;                 // column: where the wall ends
  std::vector<double> weights_;  // by brick
  std::vector<bool> is_laid_;    // by brick
  Lists starts_, ends_;          // by where bricks begin and end; all that are left are among them
  std::vector<Stretch> edge_;    // by column
  // A heap of heights and columns of stretches, and of what they were before.
  std::vector<std::pair<std::int64_t, int>> heights_;
  std::uint64_t random_ = 0x9e3779b97f4a7c15;  // fixed: the same buffers give the same plan
};

// Rounds of the search; `take` gets the offsets of each that wins. Whether the bound is reached.
template <class F>
bool Search(std::span<const Lifetime> buffers, int rounds, MemoryPlan* plan, F&& take) {
  Wall wall(buffers);
  std::vector<std::int64_t> offsets;
  int last_won = 0;
  for (int round = 0; round < rounds && round < last_won + kPatience; ++round) {
    const std::int64_t peak = wall.Build(&offsets);
    wall.Promote(offsets, plan->bound_bytes);
    if (peak >= plan->peak_bytes) continue;
    last_won = round;
    plan->peak_bytes = peak;
    take(offsets);
    if (peak == plan->bound_bytes) return true;
  }
  return false;
}

bool SearchEach(std::span<const Lifetime> buffers, int rounds, MemoryPlan* plan) {
  return Search(buffers, rounds, plan, [&](auto& offsets) { plan->offsets = offsets; });
}

bool SearchGlued(const GluedBuffers& glued, int rounds, MemoryPlan* plan) {
  return Search(glued.wholes, rounds, plan, [&](const std::vector<std::int64_t>& offsets) {
    for (std::size_t w = 0; w < offsets.size(); ++w) {
      for (const GluedBuffers::Part& p : glued.parts[w]) {
        plan->offsets[std::size_t(p.buffer)] = offsets[w] + p.at;
      }
    }
  });
}

GluedBuffers Unglued(std::span<const Lifetime> buffers) {
  GluedBuffers each{{buffers.begin(), buffers.end()}, {}};
  for (int i = 0; i < int(buffers.size()); ++i) each.parts.push_back({{i, 0}});
  return each;
}

// Appends what `from` is made of to `to`.
void Append(GluedBuffers* glued, std::size_t to, std::size_t from, std::int64_t at) {
  for (const GluedBuffers::Part& p : glued->parts[from]) {
    glued->parts[to].push_back({p.buffer, p.at + at});
  }
  glued->parts[from].clear();
}

// The wholes that are left, by a key of their lifetimes.
template <class Key>
std::vector<std::size_t> SortedBy(const GluedBuffers& glued, Key&& key) {
  std::vector<std::size_t> order;
  for (std::size_t w = 0; w < glued.wholes.size(); ++w) {
    if (!glued.parts[w].empty()) order.push_back(w);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return key(glued.wholes[a]) < key(glued.wholes[b]);
  });
  return order;
}

bool GlueEqualLifetimes(GluedBuffers* glued) {
  const auto key = [](const Lifetime& l) { return std::pair(l.first, l.last); };
  const std::vector<std::size_t> order = SortedBy(*glued, key);
  bool has_changed = false;
  for (std::size_t i = 0, k = 1; k < order.size(); ++k) {
    Lifetime &to = glued->wholes[order[i]], &from = glued->wholes[order[k]];
    if (key(to) != key(from)) {
      i = k;
      continue;
    }
    Append(glued, order[i], order[k], to.bytes);
    to.bytes += from.bytes;
    has_changed = true;
  }
  return has_changed;
}

bool GlueEqualBytes(GluedBuffers* glued) {
  const auto key = [](const Lifetime& l) { return std::pair(l.bytes, l.first); };
  const std::vector<std::size_t> order = SortedBy(*glued, key);
  std::map<std::pair<std::int64_t, int>, std::vector<std::size_t>> starts;
  for (const std::size_t w : order) starts[key(glued->wholes[w])].push_back(w);
  bool has_changed = false;
  for (const std::size_t w : order) {
    Lifetime& to = glued->wholes[w];
    while (!glued->parts[w].empty()) {
      const auto next = starts.find({to.bytes, to.last + 1});
      if (next == starts.end() || next->second.empty()) break;
      const std::size_t from = next->second.back();
      next->second.pop_back();
      Append(glued, w, from, 0);
      to.last = glued->wholes[from].last;
      has_changed = true;
    }
  }
  return has_changed;
}

}  // namespace

GluedBuffers Glue(std::span<const Lifetime> buffers) {
  GluedBuffers glued = Unglued(buffers);
  while (GlueEqualLifetimes(&glued) || GlueEqualBytes(&glued)) {
  }
  std::size_t k = 0;
  std::erase_if(glued.wholes, [&](const Lifetime&) { return glued.parts[k++].empty(); });
  std::erase_if(glued.parts, [](const auto& parts) { return parts.empty(); });
  return glued;
}

void ImprovePlan(std::span<const Lifetime> buffers, int rounds, MemoryPlan* plan) {
  // One round first: it reaches the bound for most sets, and gluing costs as much as a round.
  if (SearchEach(buffers, std::min(rounds, 1), plan)) return;
  const GluedBuffers glued = Glue(buffers);
  if (glued.wholes.size() < buffers.size() && SearchGlued(glued, rounds, plan)) return;
  SearchEach(buffers, rounds, plan);
}

}  // namespace anyop
