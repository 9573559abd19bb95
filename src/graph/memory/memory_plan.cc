// SPDX-License-Identifier: Apache-2.0
#include "graph/memory/memory_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "graph/memory/skyline.h"
#include "platform/byte_count.h"
#include "platform/error.h"

namespace anyop {
namespace {

class Planner {
 public:
  explicit Planner(std::span<const Lifetime> buffers) : buffers_(buffers) {
    std::int64_t all = 0;
    for (const Lifetime& b : buffers) {
      bytes_.push_back(AlignBytes(b.bytes, kArenaAlignment));
      all = AddBytes(all, bytes_.back());
    }
    // Every offset and end of a plan is a sum of some of these bytes: with this check no addition
    // below can overflow.
    if (all == kTooManyBytes) {
      Fail(ANYOP_OUT_OF_MEMORY,
           "graph: the values take 2^63 bytes or more together, but no memory is as large. Try "
           "smaller inputs.");
    }
    FindNeighbours();
  }

  MemoryPlan Plan(int rounds) {
    MemoryPlan plan = PlaceBySize();
    if (plan.peak_bytes == bound_ || rounds <= 0) return plan;
    std::vector<Lifetime> aligned(buffers_.begin(), buffers_.end());
    for (std::size_t i = 0; i < aligned.size(); ++i) aligned[i].bytes = bytes_[i];
    ImprovePlan(aligned, rounds, &plan);
    return plan;
  }

 private:
  // Who is alive together with whom, and the most bytes at one step: one pass over the steps.
  void FindNeighbours() {
    const std::size_t n = buffers_.size();
    std::vector<std::pair<int, int>> together;
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
      for (const int a : alive) together.emplace_back(a, i);
      alive.push_back(i);
      bytes += bytes_[std::size_t(i)];
      bound_ = std::max(bound_, bytes);
    }
    SetNeighbours(together);
  }
  void SetNeighbours(const std::vector<std::pair<int, int>>& together) {
    ends_.assign(buffers_.size(), 0);
    for (const auto& [a, b] : together) {
      ++ends_[std::size_t(a)];
      ++ends_[std::size_t(b)];
    }
    // Neighbours of all buffers lie in one array, a part for each. A part is filled from its
    // beginning, so that what is its beginning now becomes its end.
    std::exclusive_scan(ends_.begin(), ends_.end(), ends_.begin(), 0);
    neighbours_.resize(2 * together.size());
    for (const auto& [a, b] : together) {
      neighbours_[std::size_t(ends_[std::size_t(a)]++)] = b;
      neighbours_[std::size_t(ends_[std::size_t(b)]++)] = a;
    }
  }
  std::span<const int> NeighboursOf(int buffer) const {
    const int begin = buffer ? ends_[std::size_t(buffer) - 1] : 0;
    return std::span(neighbours_)
        .subspan(std::size_t(begin), std::size_t(ends_[std::size_t(buffer)] - begin));
  }

  // The largest first, each into the smallest gap between its neighbours that holds it, else as low
  // as it can lie above.
  MemoryPlan PlaceBySize() const {
    std::vector<int> order(buffers_.size());
    std::iota(order.begin(), order.end(), 0);
    // Stable, so that equal sizes give the same plan with every library of C++.
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return bytes_[std::size_t(a)] > bytes_[std::size_t(b)]; });
    MemoryPlan plan{std::vector<std::int64_t>(buffers_.size(), -1), 0, bound_};
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (const int i : order) {
      taken.clear();
      for (const int other : NeighboursOf(i)) {
        const std::int64_t at = plan.offsets[std::size_t(other)];
        if (at >= 0) taken.emplace_back(at, at + bytes_[std::size_t(other)]);
      }
      std::sort(taken.begin(), taken.end());
      std::int64_t& offset = plan.offsets[std::size_t(i)];
      offset = TightestGap(taken, bytes_[std::size_t(i)]);
      plan.peak_bytes = std::max(plan.peak_bytes, offset + bytes_[std::size_t(i)]);
    }
    return plan;
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

  std::span<const Lifetime> buffers_;
  std::vector<std::int64_t> bytes_;
  std::vector<int> neighbours_, ends_;  // of the first buffer, the second, ...; where each ends
  std::int64_t bound_ = 0;
};

}  // namespace

MemoryPlan PlanMemory(std::span<const Lifetime> buffers, int rounds) {
  if (buffers.empty()) return {};
  return Planner(buffers).Plan(rounds);
}

}  // namespace anyop
