// SPDX-License-Identifier: Apache-2.0
// Random graphs of real operators, replayed and run call by call: outputs, states and changed
// inputs must be the same, bit for bit. What may differ by design stays out: no state is frozen
// where an operator has .prepack; fused kernels keep the bits of their parts.
//
//   random_graphs_test [--graphs=N] [--seed=S] [--print]      graph k is that of seed S + k
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "eager_graph.h"
#include "graph/builder/parse_graph.h"
#include "graph/executable.h"
#include "graph/ir/alias.h"
#include "graph/ir/text.h"
#include "graph/passes/dependences.h"
#include "graph/specialise/check_places.h"
#include "graph/specialise/specialisation.h"
#include "random_graph.h"
#include "runtime/observe/check_mode.h"
#include "runtime/registry/registry.h"

namespace anyop::testing::random_graphs_test {
namespace {

std::uint64_t g_seed = 1;
int g_graphs = 10000;
bool g_prints = false;
std::size_t g_regions = 0;  // in all replays

// What a replay is given, and what is compared after it.
struct Data {
  std::vector<Array> inputs;  // none for numbers
  std::vector<double> numbers;
  std::vector<Array> states;  // by value
};

class Trial {
 public:
  explicit Trial(std::uint64_t seed) : seed_(seed), random_(seed * 7919 + 1) {
    made_ = GraphMaker(seed).Make();
    Freeze();
    options_.optimize = Chance(90);
    options_.fuse = Chance(70);
    options_.share_memory = Chance(90);
    options_.block_rows = Chance(25) ? 0 : 1 + std::int64_t(random_() % 3);
    threads_ = Chance(2) ? 2 : 1;
    is_shuffled_ = Chance(30);
    is_checked_ = Chance(5);
  }

  const Graph& graph() const { return made_.graph; }
  bool is_empty() const { return graph().nodes.empty() || graph().outputs.empty(); }

  // False: the program itself is refused.
  bool Run() {
    const Checking checking(is_checked_);
    Scope scope;
    scope.threads(threads_);
    Executable e(is_shuffled_ ? Shuffled() : graph(), options_);
    if (g_prints) std::printf("compiled:\n%s", Print(e.graph()).c_str());
    if (seed_ % 16 == 0) CheckText(e.graph());
    std::int64_t n = made_.n;
    for (int round = 0; round < 3; ++round) {
      if (round == 2 && n) n += 1 + std::int64_t(random_() % 3);
      if (!RunOnce(e, n)) return round > 0;
    }
    return true;
  }

  std::string Text() const {
    return "random_graphs_test --graphs=1 --seed=" + std::to_string(seed_) + "\n" +
           "n = " + std::to_string(made_.n) + ", threads = " + std::to_string(threads_) +
           ", optimize = " + std::to_string(options_.optimize) +
           ", fuse = " + std::to_string(options_.fuse) +
           ", share_memory = " + std::to_string(options_.share_memory) +
           ", block_rows = " + std::to_string(options_.block_rows) +
           ", shuffled = " + std::to_string(is_shuffled_) +
           ", checked = " + std::to_string(is_checked_) + "\n" + Print(graph());
  }

 private:
  bool Chance(int percent) { return int(random_() % 100) < percent; }

  void Freeze() {
    const std::vector<bool> written = WrittenRoots(graph());
    const bool has_prepack =
        std::any_of(graph().nodes.begin(), graph().nodes.end(),
                    [](const GraphNode& node) { return *node.op->data->prepack != 0; });
    for (std::size_t v = 0; v < graph().values.size(); ++v) {
      GraphValue& value = made_.graph.values[v];
      const bool may_freeze = value.kind == GraphValue::kState && !written[v] && !has_prepack;
      value.is_frozen = may_freeze && Chance(40);
    }
  }

  // In any order that dependences leave open: what a pass may choose from.
  Graph Shuffled() {
    Graph shuffled = graph();
    const std::vector<std::vector<int>> follows = NodeDependences(shuffled);
    std::vector<int> order;
    std::vector<bool> is_placed(follows.size());
    while (order.size() < follows.size()) {
      const std::size_t i = random_() % follows.size();
      const bool may_come = std::all_of(follows[i].begin(), follows[i].end(),
                                        [&](int f) { return is_placed[std::size_t(f)]; });
      if (is_placed[i] || !may_come) continue;
      is_placed[i] = true;
      order.push_back(int(i));
    }
    PermuteNodes(&shuffled, order);
    return shuffled;
  }

  Data MakeData(std::int64_t n) {
    Data data;
    std::vector<std::int64_t> symbols(graph().symbols.size(), n);
    const std::vector<bool> written = WrittenRoots(graph());
    for (const int i : graph().inputs) {
      const GraphValue& v = graph().value(i);
      data.numbers.push_back(double(random_() % 1000) / 500);
      if (v.kind == GraphValue::kScalar) {
        data.inputs.emplace_back();
        continue;
      }
      Shape shape;
      for (const Size& s : v.shape) shape.push_back(s.At(symbols));
      data.inputs.push_back(
          MakeInput(shape, v.dtype, made_.index_data[std::size_t(i)], written[std::size_t(i)]));
    }
    for (const GraphValue& v : graph().values) {
      data.states.push_back(v.array.is_none() ? Array() : v.array.Clone());
    }
    return data;
  }
  // Some lie with gaps between their rows.
  Array MakeInput(Shape shape, DType dtype, const IndexData& index, bool is_written) {
    const bool has_gaps = !is_written && !shape.empty() && Chance(15);
    const std::int64_t last = shape.empty() ? 0 : shape.back();
    if (has_gaps) shape.back() += 3;
    Array a = Array::Empty({shape.data(), shape.size()}, dtype);
    if (has_gaps) a = a.Slice(int(shape.size()) - 1, 0, last);
    if (!has_gaps) {
      Fill(a, index, random_);
      return a;
    }
    Array dense = Array::Empty(a.shape(), dtype);
    Fill(dense, index, random_);
    CopyRows(dense, a);
    return a;
  }
  static void CopyRows(const Array& from, const Array& to) {
    const std::int64_t width = from.rank() ? from.dim(-1) * Bytes(from.dtype()) : 0;
    const std::int64_t rows = width ? from.bytes() / width : 0;
    const std::int64_t pitch = (from.dim(-1) + 3) * Bytes(from.dtype());
    for (std::int64_t r = 0; r < rows; ++r) {
      std::memcpy(static_cast<char*>(to.data()) + r * pitch,
                  static_cast<const char*>(from.data()) + r * width, std::size_t(width));
    }
  }

  std::vector<anyop_value> Values(const Data& data, const std::vector<Array>& inputs) const {
    std::vector<anyop_value> values;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      values.push_back(inputs[k].is_none() ? Argument(data.numbers[k]).value()
                                           : Argument(inputs[k]).value());
    }
    return values;
  }

  // False: the program is refused.
  bool RunOnce(Executable& e, std::int64_t n) {
    const Data data = MakeData(n);
    const std::vector<bool> written = WrittenRoots(graph());
    std::vector<Array> eager_inputs = data.inputs;
    for (std::size_t k = 0; k < eager_inputs.size(); ++k) {
      if (written[std::size_t(graph().inputs[k])]) eager_inputs[k] = data.inputs[k].Clone();
    }
    std::vector<Array> expected;
    try {
      std::vector<std::int64_t> symbols(graph().symbols.size(), n);
      expected = EagerGraph(graph(), symbols, Values(data, eager_inputs), data.states).Run();
    } catch (const Error& error) {
      if (g_prints) std::printf("refused: %s\n", error.what());
      return false;
    }
    const std::vector<Array> actual = Replay(e, Values(data, data.inputs));
    for (std::size_t k = 0; k < expected.size(); ++k) {
      Compare("output " + graph().outputs[k].name, expected[k], actual[k]);
    }
    for (std::size_t k = 0; k < eager_inputs.size(); ++k) {
      const int v = graph().inputs[k];
      if (written[std::size_t(v)]) Compare(graph().value(v).name, eager_inputs[k], data.inputs[k]);
    }
    for (std::size_t v = 0; v < data.states.size(); ++v) {
      const GraphValue& value = graph().values[v];
      if (!value.array.is_none()) Compare(value.name, data.states[v], value.array);
    }
    return true;
  }

  static std::vector<Array> Replay(Executable& e, const std::vector<anyop_value>& inputs) {
    const std::shared_ptr<Specialisation> s = e.Prepare(inputs);
    g_regions += s->regions.size();
    EXPECT_EQ(CheckPlaces(*s), "");
    std::vector<Array> outputs;
    for (const ResultShape& r : OutputsOf(*s)) {
      outputs.push_back(Array::Empty({r.shape, std::size_t(r.rank)}, r.dtype));
      std::memset(outputs.back().data(), 0x5a, std::size_t(outputs.back().bytes()));
    }
    std::vector<const DLTensor*> tensors;
    for (const Array& a : outputs) tensors.push_back(&a.tensor());
    e.Replay(*s, inputs, tensors);
    return outputs;
  }

  static void Compare(const std::string& name, const Array& expected, const Array& actual) {
    ASSERT_EQ(expected.bytes(), actual.bytes()) << name;
    const char *a = static_cast<const char*>(expected.data()),
               *b = static_cast<const char*>(actual.data());
    std::int64_t at = 0;
    while (at < expected.bytes() && a[at] == b[at]) ++at;
    EXPECT_EQ(at, expected.bytes())
        << name << " differs from element " << at / Bytes(expected.dtype()) << " on";
  }

  void CheckText(const Graph& compiled) const {
    const std::string text = Print(compiled);
    const auto data = [&](const std::string& name) {
      for (const GraphValue& v : compiled.values) {
        if (v.name == name) return v.array;
      }
      return Array();
    };
    EXPECT_EQ(Print(ParseGraph(text, data)), text);
  }

  const std::uint64_t seed_;
  Random random_;
  RandomGraph made_;
  CompileOptions options_;
  int threads_ = 1;
  bool is_shuffled_ = false, is_checked_ = false;
};

TEST(RandomGraphs, ReplayWhatTheirProgramsDo) {
  LoadBuiltIn();
  int refused = 0, empty = 0;
  std::size_t nodes = 0;
  for (int k = 0; k < g_graphs; ++k) {
    Trial trial(g_seed + std::uint64_t(k));
    if (trial.is_empty()) {
      ++empty;
      continue;
    }
    nodes += trial.graph().nodes.size();
    if (g_prints) std::printf("%s", trial.Text().c_str());
    std::fflush(stdout);
    try {
      refused += !trial.Run();
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
    if (HasFailure()) {
      std::printf("%s", trial.Text().c_str());
      return;
    }
  }
  std::printf("%d graphs from seed %llu, %zu nodes, %zu regions; %d refused, %d empty\n", g_graphs,
              static_cast<unsigned long long>(g_seed), nodes, g_regions, refused, empty);
  if (g_graphs < 100) return;
  EXPECT_LT(refused, g_graphs / 5);
  EXPECT_LT(empty, g_graphs / 10);
  EXPECT_GT(nodes, std::size_t(g_graphs) * 4);
  EXPECT_GT(g_regions, std::size_t(g_graphs) / 2);
}

// The two norms of a decoder layer, as a program without the joint operator writes them.
TEST(RandomGraphs, FuseTheResidualIntoTheNorm) {
  LoadBuiltIn();
  const auto weight = [](const std::string&) { return Array::Zeros({64}, DType::kBF16); };
  const Executable e(
      ParseGraph("input h: bf16[n, 64]\ninput x: bf16[n, 64]\nstate w: bf16[64]\n"
                 "sum: bf16[n, 64] = anyop.add(h, x)\n"
                 "y: bf16[n, 64] = anyop.rms_norm(sum, w, eps=1e-05)\n"
                 "next: bf16[n, 64] = anyop.add(y, sum)\n"
                 "z: bf16[n, 64] = anyop.rms_norm(next, w, eps=1e-05)\n"
                 "output z\noutput next\n",
                 weight));
  ASSERT_EQ(e.graph().nodes.size(), 2u);
  for (const GraphNode& node : e.graph().nodes) EXPECT_EQ(node.op->name, "anyop.add_rms_norm");
}

}  // namespace
}  // namespace anyop::testing::random_graphs_test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const char* large = std::getenv("OPTEST_LARGE");
  if (large && std::string_view(large) == "none")
    anyop::testing::random_graphs_test::g_graphs = 500;
  for (int i = 1; i < argc; ++i) {
    const std::string_view a = argv[i];
    anyop::testing::random_graphs_test::g_prints |= a == "--print";
    if (a.starts_with("--graphs="))
      anyop::testing::random_graphs_test::g_graphs = std::atoi(argv[i] + 9);
    if (a.starts_with("--seed="))
      anyop::testing::random_graphs_test::g_seed = std::strtoull(argv[i] + 7, nullptr, 10);
  }
  return RUN_ALL_TESTS();
}
