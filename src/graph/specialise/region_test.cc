// SPDX-License-Identifier: Apache-2.0
#include "graph/specialise/region.h"
#include "graph/builder/parse_graph.h"

#include <thread>

#include "graph/ir/text.h"
#include "graph/specialise/specialisation.h"
#include "graph/testing.h"

namespace anyop::region_test {
namespace {

constexpr char kChain[] =
    "input x: f32[n, 4]\n"
    "input y: f32[n, 4]\n"
    "input s: float\n"
    "a: f32[n, 4] = testing.plus(x, y)\n"
    "b: f32[n, 4] = testing.times(a, s)\n"
    "c: f32[n, 4] = testing.plus(b, x)\n"
    "d: f32[n, 4] = testing.positive(c)\n"
    "e: f32[n, 4] = testing.plus(d, y)\n"
    "output e\n";

CompileOptions Blocks(std::int64_t rows) {
  CompileOptions options;
  options.fuse = false;
  options.block_rows = rows;
  return options;
}

// e of kChain.
std::vector<float> Expected(const Array& x, const Array& y, float s) {
  std::vector<float> e;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const float xi = x.data<float>()[i], yi = y.data<float>()[i];
    e.push_back((s * (xi + yi) + xi) + yi);
  }
  return e;
}

std::shared_ptr<Specialisation> Prepare(Executable& e, const std::vector<Argument>& arguments) {
  std::vector<anyop_value> inputs;
  for (const Argument& a : arguments) inputs.push_back(a.value());
  return e.Prepare(inputs);
}

TEST(Region, HasTheSameBitsWhateverTheBlock) {
  for (const std::int64_t rows : {2, 5, 16, 33}) {
    const Array x = Counting({rows, 4}), y = Counting({rows, 4});
    for (const std::int64_t block : {1, 2, 3, 7, 16}) {
      for (const int threads : {1, 2, 3}) {
        Scope scope;
        scope.threads(threads);
        Executable e(ParseGraph(kChain), Blocks(block));
        const auto s = Prepare(e, {x, y, 0.5});
        EXPECT_EQ(s->regions.size(), block < rows ? 1u : 0u);
        for (const double factor : {0.5, 3.0}) {
          EXPECT_EQ(Values(Replay(e, {x, y, factor})[0]), Expected(x, y, float(factor)))
              << rows << " rows, " << block << " in a block, " << threads << " threads";
        }
      }
    }
  }
}

TEST(Region, KeepsWhatItHandsOnInTheMemoryOfItsThreads) {
  const Array x = Counting({64, 4});
  Scope scope;
  scope.threads(1);
  Executable whole(ParseGraph(kChain), Blocks(64)), cut(ParseGraph(kChain), Blocks(4));
  EXPECT_GE(Prepare(whole, {x, x, 0.5})->memory.peak_bytes, 64 * 4 * 4);
  EXPECT_LE(Prepare(cut, {x, x, 0.5})->memory.peak_bytes, 4 * 4 * 4 * 4);
}

TEST(Region, NamesTheCallThatFails) {
  Array x = Counting({9, 4});
  x.data<float>()[30] = -1000;
  Executable e(ParseGraph(kChain), Blocks(2));
  for (int k = 0; k < 2; ++k) {  // a failure leaves nothing behind
    EXPECT_EQ(ErrorOf([&] {
                Replay(e, {x, x, 1.0});
              }),
              "testing.positive: an element is negative.\n  in d = testing.positive(c)");
    const Array good = Counting({9, 4});
    EXPECT_EQ(Values(Replay(e, {good, good, 1.0})[0]), Expected(good, good, 1));
  }
}

TEST(Region, CountsItsCallsAsAnyOther) {
  const Array x = Counting({9, 4});
  Executable e(ParseGraph(kChain), Blocks(2));
  const std::uint64_t before = CountersFor("testing.plus", "cpu_f32").calls;
  Replay(e, {x, x, 1.0});
  EXPECT_EQ(CountersFor("testing.plus", "cpu_f32").calls, before + 3);
}

TEST(Region, IsTimedByCall) {
  const Array x = Counting({9, 4}), out = Array::Empty({9, 4}, DType::kF32);
  Executable e(ParseGraph(kChain), Blocks(2));
  const anyop_value inputs[] = {Argument(x).value(), Argument(x).value(), Argument(2.0).value()};
  const DLTensor* outputs[] = {&out.tensor()};
  std::vector<double> ns(e.graph().nodes.size());
  e.ReplayTimed(*e.Prepare(inputs), inputs, outputs, ns);
  EXPECT_EQ(Values(out), Expected(x, x, 2));
  for (const double t : ns) EXPECT_GT(t, 0);
}

TEST(Region, EndsWhereRowsAreNotTheSame) {
  // Rows of b are columns of its transpose, and halves of its rows.
  for (const char* view : {"transpose(b, 0, 1)", "reshape(b, [4, 4])"}) {
    const std::string text = std::string("input x: f32[4, 4]\n") +
                             "a: f32[4, 4] = testing.times(x, 2.0)\n" +
                             "b: f32[4, 4] = testing.times(a, 3.0)\n" + "v: f32[4, 4] = " + view +
                             "\nc: f32[4, 4] = testing.plus(v, b)\noutput c\n";
    Executable e(ParseGraph(text), Blocks(1)), plain(ParseGraph(text), Blocks(4));
    const Array x = Counting({4, 4});
    EXPECT_EQ(Values(Replay(e, {x})[0]), Values(Replay(plain, {x})[0])) << view;
  }
}

// Rows of y are wider than those of x, which ends where y begins: the first block of y would lie on
// what other blocks of x are still to be read.
TEST(Region, KeepsWhatItReadsUntilItsEnd) {
  const std::string text =
      "input in: f32[8, 4]\nstate w: f32[4]\nstate v: f32[8]\n"
      "x: f32[8, 4] = testing.weigh(in, w)\n"
      "a: f32[8, 4] = testing.times(x, 2.0)\n"
      "y: f32[8, 8] = testing.twice(a)\n"
      "out: f32[8, 8] = testing.weigh(y, v)\noutput out\n";
  const auto data = [](const std::string& name) {
    return Array::Full({name == "w" ? 4 : 8}, DType::kF32, 1);
  };
  Executable e(ParseGraph(text, data), Blocks(1)), plain(ParseGraph(text, data), Blocks(8));
  const Array x = Counting({8, 4});
  EXPECT_EQ(Prepare(e, {x})->regions.size(), 1u);
  EXPECT_EQ(Values(Replay(e, {x})[0]), Values(Replay(plain, {x})[0]));
}

TEST(Region, RunsForSeveralCallersAtOnce) {
  Executable e(ParseGraph(kChain), Blocks(3));
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int k = 0; k < 4; ++k) {
    callers.emplace_back([&, k] {
      Scope scope;
      scope.threads(2);
      const Array x = Counting({64, 4}), y = Counting({64, 4});
      for (int round = 0; round < 200; ++round) {
        const float s = float(k + round % 3);
        wrong += Values(Replay(e, {x, y, double(s)})[0]) != Expected(x, y, s);
      }
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace anyop::region_test
