// SPDX-License-Identifier: Apache-2.0
// What is planned is a wall: time from left to right, memory from the bottom up, each buffer a
// brick whose place in time is given. The lowest stretch of the wall's upper edge (the skyline)
// gets the brick that fits it best; where none fits it is raised to its lower neighbour. After each
// round the bricks that ended too high are laid earlier: they count for more.
#include "graph/skyline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace anyop {
namespace {

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
    starts_.resize(times.size());
    for (const Lifetime& b : buffers) {
      bricks_.push_back({column(b.first), column(b.last + 1), b.bytes, 0});
      bricks_.back().area = double(b.bytes) * (b.last + 1 - b.first);
    }
  }

  // Lays all bricks; returns how high the wall is. Each round is another one.
  std::int64_t Build(std::vector<std::int64_t>* offsets) {
    offsets->assign(bricks_.size(), 0);
    for (std::vector<int>& s : starts_) s.clear();
    for (int i = 0; i < int(bricks_.size()); ++i) {
      starts_[std::size_t(bricks_[std::size_t(i)].begin)].push_back(i);
    }
    edge_.assign(1, {0, int(starts_.size()) - 1, 0});
    std::int64_t peak = 0;
    for (std::size_t left = bricks_.size(); left;) {
      const std::size_t k = std::size_t(
          std::min_element(edge_.begin(), edge_.end(),
                           [](const Stretch& a, const Stretch& b) { return a.height < b.height; }) -
          edge_.begin());
      const int brick = Choose(edge_[k]);
      if (brick < 0) {
        Raise(k);
        continue;
      }
      (*offsets)[std::size_t(brick)] = edge_[k].height;
      peak = std::max(peak, edge_[k].height + bricks_[std::size_t(brick)].bytes);
      Lay(brick, k);
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
  struct Brick {
    int begin, end;  // columns
    std::int64_t bytes;
    double area;
  };
  struct Stretch {
    int begin, end;
    std::int64_t height;
  };

  // The brick for a stretch, -1 if none fits; it is taken away from those that are left.
  int Choose(const Stretch& s) {
    int best = -1, best_at = -1;
    double most = -1;
    for (int c = s.begin; c < s.end; ++c) {
      const std::vector<int>& starts = starts_[std::size_t(c)];
      for (std::size_t k = 0; k < starts.size(); ++k) {
        const Brick& b = bricks_[std::size_t(starts[k])];
        if (b.end > s.end) continue;
        const bool is_left = c == s.begin, is_right = b.end == s.end;
        const double fit = is_left && is_right   ? kFlushLeftAndRight
                           : is_left || is_right ? kFlush
                                                 : 0;
        const double worth =
            (fit + b.area) * weights_[std::size_t(starts[k])] * (1 + kNoise * NextRandom());
        if (worth <= most) continue;
        most = worth;
        best = starts[k];
        best_at = int(k);
      }
    }
    if (best >= 0) {
      std::vector<int>& starts = starts_[std::size_t(bricks_[std::size_t(best)].begin)];
      std::swap(starts[std::size_t(best_at)], starts.back());
      starts.pop_back();
    }
    return best;
  }

  void Raise(std::size_t k) {
    std::int64_t height = std::numeric_limits<std::int64_t>::max();
    if (k > 0) height = edge_[k - 1].height;
    if (k + 1 < edge_.size()) height = std::min(height, edge_[k + 1].height);
    edge_[k].height = height;
    Join(k);
  }

  void Lay(int brick, std::size_t k) {
    const Brick& b = bricks_[std::size_t(brick)];
    const Stretch s = edge_[k];
    edge_[k] = {b.begin, b.end, s.height + b.bytes};
    const auto at = [&](std::size_t i) { return edge_.begin() + std::ptrdiff_t(i); };
    if (b.end < s.end) edge_.insert(at(k + 1), {b.end, s.end, s.height});
    if (s.begin < b.begin) edge_.insert(at(k++), {s.begin, b.begin, s.height});
    Join(k);
  }
  // A stretch with neighbours that are as high.
  void Join(std::size_t k) {
    if (k + 1 < edge_.size() && edge_[k + 1].height == edge_[k].height) {
      edge_[k].end = edge_[k + 1].end;
      edge_.erase(edge_.begin() + std::ptrdiff_t(k) + 1);
    }
    if (k > 0 && edge_[k - 1].height == edge_[k].height) {
      edge_[k - 1].end = edge_[k].end;
      edge_.erase(edge_.begin() + std::ptrdiff_t(k));
    }
  }

  double NextRandom() {  // 0 to 1
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return double(random_ >> 11) * 0x1p-53;
  }

  std::vector<Brick> bricks_;
  std::vector<double> weights_;           // by brick
  std::vector<std::vector<int>> starts_;  // by column: bricks that are left
  std::vector<Stretch> edge_;             // from left to right
  std::uint64_t random_ = 0x9e3779b97f4a7c15;
};

void Improve(const GluedBuffers& glued, int rounds, MemoryPlan* plan) {
  Wall wall(glued.wholes);
  std::vector<std::int64_t> offsets;
  int last_won = 0;
  for (int round = 0; round < rounds && round < last_won + kPatience; ++round) {
    const std::int64_t peak = wall.Build(&offsets);
    wall.Promote(offsets, plan->bound_bytes);
    if (peak >= plan->peak_bytes) continue;
    last_won = round;
    plan->peak_bytes = peak;
    for (std::size_t w = 0; w < offsets.size(); ++w) {
      for (const GluedBuffers::Part& p : glued.parts[w]) {
        plan->offsets[std::size_t(p.buffer)] = offsets[w] + p.at;
      }
    }
    if (peak == plan->bound_bytes) return;
  }
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
  const GluedBuffers glued = Glue(buffers);
  if (glued.wholes.size() < buffers.size()) Improve(glued, rounds, plan);
  if (plan->peak_bytes == plan->bound_bytes) return;
  Improve(Unglued(buffers), rounds, plan);
}

}  // namespace anyop
