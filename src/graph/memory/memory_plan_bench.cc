// SPDX-License-Identifier: Apache-2.0
// Memory plans of generated sets: how far they are above the lower bound, and what they cost. The
// counters are the mean and the worst of 20 sets: peak / bound, 1 at best.
//
// Cut: a rectangle of memory by time, cut in two at a random place along a random side, again and
// again, the largest part first. A perfect plan exists: the rectangle.
// Pinwheel: likewise, but into five parts around the middle, no two of which are a rectangle.
// Random: sizes from 64 bytes to 1 MiB, equally likely by their logarithm; lifetimes of 8 steps in
// the mean, beginning anywhere. No plan need reach the bound.
// Stack: lifetimes that lie within one another or apart, as calls of functions do.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "graph/memory/memory_plan.h"

namespace anyop {
namespace {

constexpr int kSets = 20, kRounds = 50;
using Buffers = std::vector<Lifetime>;
using Random = std::mt19937;

int Below(Random& random, std::int64_t n) { return int(random() % std::uint64_t(n)); }

std::int64_t RandomBytes(Random& random) {
  return std::int64_t(64 * std::exp2(std::uniform_real_distribution<>(0, 14)(random)));
}

// A rectangle cut until there are n parts; cut(part, random, parts) changes one and adds others.
template <class F>
Buffers CutUntil(int n, Random& random, F&& cut) {
  Buffers parts = {{kArenaAlignment * 16384, 0, 1023}};
  for (int tries = 0; int(parts.size()) < n && tries < 10 * n; ++tries) {
    const auto area = [](const Lifetime& l) { return double(l.bytes) * (l.last - l.first + 1); };
    const auto largest = std::max_element(parts.begin(), parts.end(),
                                          [&](auto& a, auto& b) { return area(a) < area(b); });
    cut(std::size_t(largest - parts.begin()), &parts);
  }
  std::shuffle(parts.begin(), parts.end(), random);
  return parts;
}

Buffers Cut(int n, Random& random) {
  return CutUntil(n, random, [&](std::size_t k, Buffers* parts) {
    Lifetime &part = (*parts)[k], rest = part;
    const std::int64_t units = part.bytes / kArenaAlignment;
    const int steps = part.last - part.first + 1;
    if (units > 1 && (steps == 1 || random() % 2)) {
      part.bytes = (1 + Below(random, units - 1)) * kArenaAlignment;
      rest.bytes -= part.bytes;
    } else if (steps > 1) {
      rest.first = part.first + 1 + Below(random, steps - 1);
      part.last = rest.first - 1;
    }
    parts->push_back(rest);
  });
}

Buffers Pinwheel(int n, Random& random) {
  return CutUntil(n, random, [&](std::size_t k, Buffers* parts) {
    const Lifetime whole = (*parts)[k];
    const std::int64_t units = whole.bytes / kArenaAlignment;
    const int steps = whole.last - whole.first + 1;
    if (units < 3 || steps < 3) return;
    // The middle begins and ends here.
    const int from = whole.first + 1 + Below(random, steps - 2);
    const int to = from + 1 + Below(random, whole.last - from);
    const std::int64_t low = 1 + Below(random, units - 2);
    const std::int64_t high = low + 1 + Below(random, units - 1 - low);
    const auto part = [&](std::int64_t bottom, std::int64_t top, int first, int end) {
      return Lifetime{(top - bottom) * kArenaAlignment, first, end - 1};
    };
    (*parts)[k] = part(low, high, from, to);
    parts->push_back(part(0, low, whole.first, to));
    parts->push_back(part(0, high, to, whole.last + 1));
    parts->push_back(part(high, units, from, whole.last + 1));
    parts->push_back(part(low, units, whole.first, from));
  });
}

Buffers Anywhere(int n, Random& random) {
  Buffers buffers;
  std::geometric_distribution<> length(1.0 / 8);
  for (int k = 0; k < n; ++k) {
    const int first = Below(random, n);
    buffers.push_back({RandomBytes(random), first, first + length(random)});
  }
  return buffers;
}

Buffers Stack(int n, Random& random) {
  Buffers buffers, open;
  for (int step = 0; int(buffers.size()) < n; ++step) {
    if (open.empty() || random() % 2) {
      open.push_back({RandomBytes(random), step, step});
    } else {
      open.back().last = step;
      buffers.push_back(open.back());
      open.pop_back();
    }
  }
  return buffers;
}

void Plan(benchmark::State& state, Buffers (*make)(int, Random&)) {
  const int n = int(state.range(0));
  std::vector<Buffers> sets;
  for (unsigned seed = 0; seed < kSets; ++seed) {
    Random random(seed);
    sets.push_back(make(n, random));
  }
  double sum = 0, worst = 0;
  for (const Buffers& set : sets) {
    const MemoryPlan plan = PlanMemory(set, kRounds);
    const double ratio = double(plan.peak_bytes) / double(plan.bound_bytes);
    sum += ratio;
    worst = std::max(worst, ratio);
  }
  std::size_t k = 0;
  for (auto _ : state) benchmark::DoNotOptimize(PlanMemory(sets[k++ % kSets], kRounds));
  state.counters["mean_of_bound"] = sum / kSets;
  state.counters["worst_of_bound"] = worst;
}

BENCHMARK_CAPTURE(Plan, cut, &Cut)->Arg(100)->Arg(1000)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Plan, pinwheel, &Pinwheel)->Arg(101)->Arg(1001)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Plan, random, &Anywhere)->Arg(100)->Arg(1000)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Plan, stack, &Stack)->Arg(100)->Arg(1000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace anyop

BENCHMARK_MAIN();
