// SPDX-License-Identifier: Apache-2.0
#include "graph/memory_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace anyop {
namespace {

std::int64_t Aligned(std::int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

class Planner {
 public:
  explicit Planner(std::span<const Lifetime> buffers) : buffers_(buffers) {
    for (const Lifetime& b : buffers) bytes_.push_back(Aligned(b.bytes));
    FindNeighbours();
  }

  MemoryPlan Plan(int rounds) {
    std::vector<int> order(buffers_.size());
    std::iota(order.begin(), order.end(), 0);
    const auto by = [&](auto key) {
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) > key(b); });
    };
    by([&](int i) { return bytes_[std::size_t(i)]; });
    MemoryPlan best{Place(order), peak_, bound_};
    std::vector<int> best_order = order;
    const auto consider = [&](const std::vector<int>& candidate) {
      std::vector<std::int64_t> offsets = Place(candidate);
      if (peak_ >= best.peak_bytes) return false;
      best.offsets = std::move(offsets);
      best.peak_bytes = peak_;
      best_order = candidate;
      return true;
    };
    if (best.peak_bytes > bound_ && rounds > 0) {
      by([&](int i) { return bytes_[std::size_t(i)] * Length(i); });
      consider(order);
      by([&](int i) { return std::int64_t(Length(i)); });
      consider(order);
    }
    std::uint64_t random = 0x9e3779b97f4a7c15;
    for (int round = 0; round < rounds && best.peak_bytes > bound_; ++round) {
      std::vector<int> next = best_order;
      Promote(best, next, random);
      consider(next);
    }
    return best;
  }

 private:
  int Length(int i) const {
    const Lifetime& b = buffers_[std::size_t(i)];
    return b.last - b.first + 1;
  }

  // Who is alive together with whom, and the most bytes at one step: one pass over the steps.
  void FindNeighbours() {
    const std::size_t n = buffers_.size();
    neighbours_.resize(n);
    std::vector<int> starts(n);
    std::iota(starts.begin(), starts.end(), 0);
    std::sort(starts.begin(), starts.end(), [&](int a, int b) {
      return buffers_[std::size_t(a)].first < buffers_[std::size_t(b)].first;
    });
    std::vector<int> alive;
    std::int64_t bytes = 0;
    for (const int i : starts) {
      const int now = buffers_[std::size_t(i)].first;
      std::erase_if(alive, [&](int a) {
        const bool ended = buffers_[std::size_t(a)].last < now;
        if (ended) bytes -= bytes_[std::size_t(a)];
        return ended;
      });
      for (const int a : alive) {
        neighbours_[std::size_t(a)].push_back(i);
        neighbours_[std::size_t(i)].push_back(a);
      }
      alive.push_back(i);
      bytes += bytes_[std::size_t(i)];
      bound_ = std::max(bound_, bytes);
    }
  }

  // Places buffers in this order, each into the smallest gap between its neighbours that holds it,
  // else as low as it can lie above. Sets peak_.
  std::vector<std::int64_t> Place(const std::vector<int>& order) {
    std::vector<std::int64_t> offsets(buffers_.size(), -1);
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    peak_ = 0;
    for (const int i : order) {
      taken.clear();
      for (const int other : neighbours_[std::size_t(i)]) {
        const std::int64_t at = offsets[std::size_t(other)];
        if (at >= 0) taken.emplace_back(at, at + bytes_[std::size_t(other)]);
      }
      std::sort(taken.begin(), taken.end());
      offsets[std::size_t(i)] = TightestGap(taken, bytes_[std::size_t(i)]);
      peak_ = std::max(peak_, offsets[std::size_t(i)] + bytes_[std::size_t(i)]);
    }
    return offsets;
  }

  static std::int64_t TightestGap(const std::vector<std::pair<std::int64_t, std::int64_t>>& taken,
                                  std::int64_t bytes) {
    std::int64_t end = 0, best = -1, best_gap = std::numeric_limits<std::int64_t>::max();
    for (const auto& [from, to] : taken) {
      const std::int64_t gap = from - end;
      if (gap >= bytes && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, to);
    }
    return best >= 0 ? best : end;
  }

  // Moves the buffers that reach the peak towards the front, and one at random: a step of the
  // search.
  void Promote(const MemoryPlan& plan, std::vector<int>& order, std::uint64_t& random) const {
    const auto next = [&random](std::size_t n) {
      random ^= random << 13;
      random ^= random >> 7;
      random ^= random << 17;
      return std::size_t(random % n);
    };
    const auto move = [&](std::size_t from) {
      const std::size_t to = next(from + 1);
      std::rotate(order.begin() + std::ptrdiff_t(to), order.begin() + std::ptrdiff_t(from),
                  order.begin() + std::ptrdiff_t(from) + 1);
    };
    for (std::size_t k = 0; k < order.size(); ++k) {
      const std::size_t i = std::size_t(order[k]);
      if (plan.offsets[i] + bytes_[i] == plan.peak_bytes) move(k);
    }
    move(next(order.size()));
  }

  std::span<const Lifetime> buffers_;
  std::vector<std::int64_t> bytes_;
  std::vector<std::vector<int>> neighbours_;
  std::int64_t bound_ = 0, peak_ = 0;
};

}  // namespace

MemoryPlan PlanMemory(std::span<const Lifetime> buffers, int rounds) {
  if (buffers.empty()) return {};
  return Planner(buffers).Plan(rounds);
}

}  // namespace anyop
