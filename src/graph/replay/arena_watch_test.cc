// SPDX-License-Identifier: Apache-2.0
// Graphs in check mode.
#include "graph/replay/arena_watch.h"
#include "graph/builder/parse_graph.h"

#include "graph/ir/text.h"
#include "graph/testing.h"
#include "runtime/observe/check_mode.h"

namespace anyop::arena_watch_test {
namespace {

class GraphCheckMode : public ::testing::Test {
  const Checking checking_;
};

CompileOptions Plain() {
  CompileOptions options;
  options.optimize = false;
  return options;
}

TEST_F(GraphCheckMode, NamesTheNodeWhoseKernelWritesWhereItMayNot) {
  const auto error = [](const std::string& how) {
    Executable e(ParseGraph("input x: f32[n]\n"
                            "a: f32[n] = testing.scale(x, s=2.0)\n"
                            "b: f32[n] = testing.defect(a, how='" +
                            how +
                            "')  # model.py:7\n"
                            "c: f32[n] = testing.scale(b, s=2.0)\n"
                            "output c\n"),
                 Plain());
    const std::string text = ErrorOf([&] { Replay(e, {Counting({5})}); });
    const std::size_t file = text.find("\n  to repeat it: anyop replay --check ");
    return file == text.npos ? text : text.substr(0, file) + text.substr(text.find('\n', file + 1));
  };
  EXPECT_EQ(error("none"), "");
  EXPECT_EQ(error("behind"),
            "testing.defect: the kernel cpu_f32 wrote outside y, f32[5]: byte 1 after its end has "
            "changed. This is a defect of the operator. Please report it. [write-outside]\n"
            "  in b = testing.defect(a, how='behind'), at model.py:7");
}

TEST_F(GraphCheckMode, NamesTheNodeWhoseDataAreRefused) {
  Executable e(ParseGraph("input x: f32[n]\n"
                          "a: f32[n] = testing.scale(x, s=0.5)\n"
                          "b: f32[n] = testing.whole(a)\n"
                          "output b\n"),
               Plain());
  EXPECT_EQ(ErrorOf([&] { Replay(e, {Floats({2}, {2, 4})}); }), "");
  EXPECT_EQ(ErrorOf([&] {
              Replay(e, {Floats({2}, {2, 3})});
            }),
            "testing.whole: x[1] is no whole number.\n  in b = testing.whole(a)");
}

TEST_F(GraphCheckMode, SeesWhatChangesBehindTheBackOfTheCalls) {
  // The last call writes where its operator's first call had its argument: into a, which lives, or
  // is gone. It is not checked itself: else it would get copies, and never an address of a.
  Find("testing.defect")->entry = &RunPlan;
  for (const bool lives : {false, true}) {
    const std::string text =
        std::string(
            "input x: f32[n]\n"
            "a: f32[n] = testing.scale(x, s=2.0)\n"
            "b: f32[n] = testing.defect(a, how='remember')\n"
            "c: f32[n] = testing.axpy(a=1.0, x=a, y=b)\n"
            "d: f32[n] = testing.defect(x, how='remembered')\n") +
        (lives ? "e: f32[n] = testing.axpy(a=1.0, x=a, y=d)\noutput e\n" : "") +
        "output c\noutput d\n";
    Executable e(ParseGraph(text), Plain());
    const std::string error = ErrorOf([&] { Replay(e, {Counting({5})}); });
    EXPECT_TRUE(error.starts_with("testing.defect: it changed " +
                                  std::string(lives ? "a" : "memory that holds nothing") +
                                  ", at byte "))
        << error;
    EXPECT_TRUE(error.ends_with("\n  in d = testing.defect(x, how='remembered')")) << error;
  }
}

TEST_F(GraphCheckMode, ChangesNoResult) {
  const std::string chain =
      "input x: f32[n, 4]\n"
      "a: f32[n, 4] = testing.scale(x, s=2.0)\n"
      "b: f32[n, 4] = testing.scale(a, s=2.0)\n"
      "c: f32[n, 4] = testing.axpy(a=1.0, x=b, y=x)\n"
      "d: f32[n, 4] = testing.scale(c, s=2.0)\n"
      "output c\noutput d\n";
  for (const std::int64_t block : {0, 2}) {  // of regions
    CompileOptions options = Plain();
    options.block_rows = block;
    Executable e(ParseGraph(chain), options);
    const std::vector<Array> r = Replay(e, {Counting({3, 4})});
    for (int i = 0; i < 12; ++i) {
      EXPECT_EQ(r[0].data<float>()[i], float(5 * i));
      EXPECT_EQ(r[1].data<float>()[i], float(10 * i));
    }
  }
}

// Plans memory, damages it, and checks it.
template <class F>
std::string Damaged(F&& damage) {
  const Array x = Counting({1000});
  const anyop_value inputs[] = {Argument(x).value()};
  Executable e(ParseGraph("input x: f32[n]\n"
                          "a: f32[n] = testing.scale(x, s=2.0)\n"
                          "b: f32[n] = testing.scale(a, s=2.0)\n"
                          "c: f32[3] = testing.uses_workspace(x)\n"
                          "d: f32[n] = testing.axpy(a=1.0, x=b, y=x)\n"
                          "e: f32[1] = testing.pick(b)\n"
                          "f: f32[1] = testing.pick(d)\n"
                          "output c\noutput e\noutput f\n"),
               Plain());
  const auto s = e.Prepare(inputs);
  damage(*s);
  return CheckPlaces(*s);
}
MemoryPlace& PlaceOf(Specialisation& s, const std::string& name) {
  for (std::size_t v = 0; v < s.places.size(); ++v) {
    if (s.graph->values[v].name == name) return s.places[v];
  }
  throw std::runtime_error("no value " + name);
}

TEST(CheckPlaces, FindsWhatIsWrong) {
  EXPECT_EQ(
      Damaged([](Specialisation& s) { EXPECT_EQ(PlaceOf(s, "a").offset, PlaceOf(s, "b").offset); }),
      "");
  EXPECT_EQ(Damaged([](Specialisation& s) { PlaceOf(s, "d") = PlaceOf(s, "b"); }),
            "d at [8000, 12000) of nodes 3 to 5 overlaps b at [8000, 12000) of nodes 1 to 4");
  EXPECT_EQ(Damaged([](Specialisation& s) { s.calls[2].workspace = 64; }),
            "the workspace of node 2 at [64, 8064) of nodes 2 to 2 overlaps b at [8000, 12000) of "
            "nodes 1 to 4");
  EXPECT_EQ(Damaged([](Specialisation& s) { PlaceOf(s, "b").offset -= 64; }),
            "b at [7936, 11936) of nodes 1 to 4 overlaps a at [8000, 12000) of nodes 0 to 1");
  EXPECT_EQ(Damaged([](Specialisation& s) { PlaceOf(s, "d").offset += 4; }).substr(0, 6), "d at [");
  EXPECT_EQ(Damaged([](Specialisation& s) { PlaceOf(s, "e") = PlaceOf(s, "b"); }),
            "e at [8000, 8004) of nodes 4 to 6 overlaps b at [8000, 12000) of nodes 1 to 4");
  EXPECT_NE(Damaged([](Specialisation& s) { s.memory.peak_bytes -= 64; }), "");
}

}  // namespace
}  // namespace anyop::arena_watch_test
