// SPDX-License-Identifier: Apache-2.0
// Another order of the nodes, where less memory is alive at once or more calls can share a region.
// Sizes are not known yet: orders are compared at a few sizes.
#include <algorithm>
#include <array>
#include <cstdint>

#include "graph/ir/alias.h"
#include "graph/memory/live_bytes.h"
#include "graph/passes/dependences.h"
#include "graph/passes/passes.h"
#include "runtime/registry/operator.h"

namespace anyop {
namespace {

constexpr std::array<double, 3> kSizes = {1, 16, 512};  // of every symbol: a step, a few, a prompt
constexpr double kWorthBytes = 65536;  // less memory than this is no reason for another order
constexpr double kWorthwhile = 0.9;    // of the bytes before
constexpr double kWorthARun = 0.75;    // where calls that could share a region are torn apart
constexpr std::size_t kChoices = 32;   // nodes that are tried for each place: bounds the time

using Order = std::vector<int>;

class Orderer {
 public:
  explicit Orderer(Graph* graph) : graph_(*graph), follows_(NodeDependences(*graph)) {
    for (const double size : kSizes) live_.emplace_back(graph_, size);
    FindRows();
    FindUnits();
  }

  void Run() {
    Order best(graph_.nodes.size());
    for (std::size_t i = 0; i < best.size(); ++i) best[i] = int(i);
    const Facts before = FactsOf(best);
    Facts reached = before;
    for (const Order& order : {BySavings(), DepthFirst(), ByRuns()}) {
      const Facts facts = FactsOf(order);
      if (!IsWorth(before, facts) || !IsBetter(facts, reached)) continue;
      best = order;
      reached = facts;
    }
    if (!std::is_sorted(best.begin(), best.end())) PermuteNodes(&graph_, best);
  }

 private:
  struct Facts {  // by which orders are compared
    std::array<double, kSizes.size()> peaks{};
    int joints = 0;  // neighbours that can share a region
  };

  Facts FactsOf(const Order& order) {
    Facts f;
    for (std::size_t k = 0; k < live_.size(); ++k) f.peaks[k] = live_[k].PeakOf(order);
    for (std::size_t i = 1; i < order.size(); ++i) f.joints += AreAlike(order[i - 1], order[i]);
    return f;
  }
  // An order must be worse at none of the sizes: nobody knows which one is called.
  static bool IsWorth(const Facts& before, const Facts& after) {
    const double enough = after.joints < before.joints ? kWorthARun : kWorthwhile;
    bool is_less = false;
    for (std::size_t k = 0; k < kSizes.size(); ++k) {
      if (after.peaks[k] > before.peaks[k]) return false;
      is_less |= after.peaks[k] <= enough * before.peaks[k] &&
                 after.peaks[k] <= before.peaks[k] - kWorthBytes;
    }
    return is_less || after.joints > before.joints;
  }
  static bool IsBetter(const Facts& a, const Facts& b) {
    return std::pair(a.peaks.back(), -a.joints) < std::pair(b.peaks.back(), -b.joints);
  }

  // ---- Rows: calls on as many rows may share a region (find_regions.cc).

  void FindRows() {
    for (const GraphNode& node : graph_.nodes) {
      double rows = 0;
      if (node.op->data->rowwise) {
        for (const int v : node.results) {
          if (v >= 0 && !rows) rows = RowsOf(graph_.value(v).shape);
        }
      }
      rows_.push_back(rows > 1 ? rows : 0);
    }
  }
  static double RowsOf(const std::vector<Size>& shape) {
    double rows = 1;
    for (std::size_t d = 0; d + 1 < shape.size(); ++d) rows *= SizeAt(shape[d], kSizes.back());
    return rows;
  }
  bool AreAlike(int a, int b) const {
    return rows_[std::size_t(a)] > 0 && rows_[std::size_t(a)] == rows_[std::size_t(b)];
  }

  // ---- Units: neighbours that hand each other rows stay together.

  struct Unit {
    int first, last;  // nodes
    int missing = 0;  // units that it follows and that are not placed yet
    std::vector<int> follows, followers;
  };

  void FindUnits() {
    for (int i = 0; i < int(graph_.nodes.size()); ++i) {
      const bool is_alike = i > 0 && AreAlike(i - 1, i);
      if (is_alike && Follows(i, units_.back().first)) {
        units_.back().last = i;
      } else {
        units_.push_back({i, i, 0, {}, {}});
      }
      unit_of_.push_back(int(units_.size()) - 1);
    }
    std::vector<int> seen(units_.size(), -1);
    for (std::size_t i = 0; i < follows_.size(); ++i) {
      const int to = unit_of_[i];
      for (const int node : follows_[i]) {
        const int from = unit_of_[std::size_t(node)];
        if (from == to || seen[std::size_t(from)] == to) continue;
        seen[std::size_t(from)] = to;
        units_[std::size_t(to)].follows.push_back(from);
        units_[std::size_t(from)].followers.push_back(to);
      }
    }
  }
  bool Follows(int node, int first) const {
    const std::vector<int>& follows = follows_[std::size_t(node)];
    return std::any_of(follows.begin(), follows.end(), [&](int f) { return f >= first; });
  }

  // ---- Orders.

  // Places unit after unit; choose(ready) is which of those that may come next does, by its place
  // in `ready`, which is in the order of the program.
  template <class F>
  Order Place(F&& choose) {
    std::vector<int> ready;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      units_[u].missing = int(units_[u].follows.size());
      if (!units_[u].missing) ready.push_back(int(u));
    }
    Order order;
    while (!ready.empty()) {
      const auto at = ready.begin() + std::ptrdiff_t(choose(ready));
      const int placed = *at;
      ready.erase(at);
      Append(placed, &order);
      for (const int f : units_[std::size_t(placed)].followers) {
        if (--units_[std::size_t(f)].missing) continue;
        ready.insert(std::lower_bound(ready.begin(), ready.end(), f), f);
      }
    }
    return order;
  }
  void Append(int unit, Order* order) const {
    const Unit& u = units_[std::size_t(unit)];
    for (int i = u.first; i <= u.last; ++i) order->push_back(i);
  }

  // Always the unit after which the fewest bytes are alive, at a prompt's sizes; of equal ones that
  // with the higher peak, which frees more.
  Order BySavings() {
    LiveBytes& live = live_.back();
    live.Reset();
    return Place([&](const std::vector<int>& ready) {
      std::size_t best = 0;
      std::pair<double, double> least;
      for (std::size_t k = 0; k < std::min(ready.size(), kChoices); ++k) {
        const Unit& u = units_[std::size_t(ready[k])];
        const LiveBytes::Step step = live.Try(u.first, u.last);
        const std::pair cost(step.after, -step.peak);
        if (k && !(cost < least)) continue;
        best = k;
        least = cost;
      }
      const Unit& u = units_[std::size_t(ready[best])];
      live.Run(u.first, u.last);
      return best;
    });
  }

  // Every unit just before the first that needs it.
  Order DepthFirst() const {
    Order order;
    std::vector<bool> is_placed(units_.size());
    std::vector<std::pair<int, std::size_t>> open;  // units, and how many that they follow are seen
    for (std::size_t u = 0; u < units_.size(); ++u) {
      if (!units_[u].followers.empty()) continue;
      open.emplace_back(int(u), 0);
      while (!open.empty()) {
        auto& [unit, seen] = open.back();
        const std::vector<int>& follows = units_[std::size_t(unit)].follows;
        if (!is_placed[std::size_t(unit)] && seen < follows.size()) {
          const int next = follows[seen++];
          if (!is_placed[std::size_t(next)]) open.emplace_back(next, 0);
          continue;
        }
        if (!is_placed[std::size_t(unit)]) Append(unit, &order);
        is_placed[std::size_t(unit)] = true;
        open.pop_back();
      }
    }
    return order;
  }

  // The order of the program, but for units that go on with the rows of the one before them.
  Order ByRuns() {
    int last = -1;
    return Place([&](const std::vector<int>& ready) {
      std::size_t best = 0;
      for (std::size_t k = 0; last >= 0 && k < std::min(ready.size(), kChoices); ++k) {
        if (!AreAlike(last, units_[std::size_t(ready[k])].first)) continue;
        best = k;
        break;
      }
      last = units_[std::size_t(ready[best])].last;
      return best;
    });
  }

  Graph& graph_;
  const std::vector<std::vector<int>> follows_;
  std::vector<LiveBytes> live_;  // by size
  std::vector<double> rows_;     // by node; 0: it shares no region
  std::vector<Unit> units_;
  std::vector<int> unit_of_;  // by node
};

}  // namespace

void OrderNodes(Graph* graph) {
  if (graph->nodes.size() > 2) Orderer(graph).Run();
}

}  // namespace anyop
