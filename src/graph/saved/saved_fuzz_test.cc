// SPDX-License-Identifier: Apache-2.0
// Folders whose files are changed token by token, with digests that nobody compares: each is
// refused with a text that names a file, or is a graph that replays. Without the digests' help this
// is what protects a process from a file that somebody made.
#include <cstring>
#include <fstream>

#include "graph/fuzz_testing.h"
#include "graph/saved/files.h"
#include "graph/saved/load.h"
#include "graph/saved/manifest.h"
#include "graph/saved/save.h"
#include "graph/saved/save_testing.h"

namespace anyop::saved_fuzz_test {
namespace {

using ::anyop::testing_graphs::Decoder;
using ::anyop::testing_graphs::Folder;
using ::anyop::testing_graphs::kLoaded;

class SavedFuzz : public ::testing::Test {
 protected:
  void SetUp() override {
    Executable one(Decoder(Counting({8, 4}), Counting({4}))), two(Decoder());
    SaveOptions options;
    options.metadata = R"({"a": [1, 2.5, null, "b"], "c": {}})";
    options.files = {{"note.txt", "hello"}};
    WriteGraphs(folder_.path,
                std::vector<GraphToSave>{{"step", &one.graph()}, {"other", &two.graph(), true}},
                options);
    const Array memory = Counting({4, 6});
    GraphBuilder b;
    const int left = b.State("left", memory.Slice(1, 0, 2)), all = b.State("all", memory);
    GraphBuilder::CallOptions into;
    into.into = {left};
    b.Call(*Find("testing.scale"), {ValueArgument(b.Input("x", "f32[4, 2]")), FloatArgument(-1)},
           into);
    b.Output(all);
    const Graph views = b.Finish();
    WriteGraphs(views_.path, std::vector<GraphToSave>{{"views", &views}});
  }
  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }

  // Loads all that is in the folder, and replays it with inputs of the right kinds.
  static bool Load(const std::string& path, bool verify = false) {
    return fuzz::IsAnswered(
        [&] {
          for (LoadedGraph& g : ReadGraphs(path, {verify}).graphs) Replayed(std::move(g.graph));
        },
        [&](const std::string& text) {
          return text.find(path) != text.npos || text.find("graph") != text.npos ||
                 text.find("testing.") != text.npos || text.find("no memory for") != text.npos;
        });
  }
  static void Replayed(Graph graph) {
    const fuzz::SmallInputs inputs(graph);
    if (!inputs.are_made()) return;
    Executable executable(std::move(graph), kLoaded);
    Replay(executable, inputs.arguments());
  }

  void Fuzz(const std::string& folder, const char* name,
            const std::function<std::string(const std::string&, fuzz::Random&)>& change) {
    const std::string path = folder + "/" + name, whole = ReadText(path);
    fuzz::Tries tries(1);
    int refused = 0;
    while (tries.Next()) {
      Write(path, change(whole, tries.random));
      refused += !Load(folder);
    }
    EXPECT_GT(refused, 0);
    Write(path, whole);
    EXPECT_TRUE(Load(folder, true));
  }

  const Folder folder_, views_;
};

const std::vector<std::string> kJson = {
    "null",       "true",      "{}",          "[]",         "{",           "}",
    "[",          "]",         ",",           ":",          "\"\"",        "\"w\"",
    "\"../w\"",   "\"cache\"", "\"f32\"",     "\"i64\"",    "\"F64\"",     "\"BOOL\"",
    "\"memory\"", "\"shape\"", "\"strides\"", "\"offset\"", "\"\\u0000\"", "\"\\ud800\"",
    "[[[[[[[[",   "-",         "\xff"};

TEST_F(SavedFuzz, ReadsOrRefusesAManifest) {
  Fuzz(folder_.path, kManifestFile, [](const std::string& text, fuzz::Random& random) {
    return fuzz::Mutated(text, random, kJson);
  });
}

TEST_F(SavedFuzz, ReadsOrRefusesViews) {
  Fuzz(views_.path, kManifestFile, [](const std::string& text, fuzz::Random& random) {
    const std::size_t at = text.find("\"graphs\"");  // where the views are
    return text.substr(0, at) + fuzz::Mutated(text.substr(at), random, kJson);
  });
}

TEST_F(SavedFuzz, ReadsOrRefusesAHeaderOfTensors) {
  Fuzz(folder_.path, kWeightsFile, [](const std::string& text, fuzz::Random& random) {
    std::uint64_t length = 0;
    std::memcpy(&length, text.data(), sizeof length);
    std::string header = fuzz::Mutated(text.substr(8, length), random, kJson);
    length = fuzz::Below(random, 9) ? header.size() : random() >> fuzz::Below(random, 64);
    std::string made(sizeof length, '\0');
    std::memcpy(made.data(), &length, sizeof length);
    return made + header + text.substr(std::min<std::size_t>(text.size(), 8 + 640));
  });
}

TEST_F(SavedFuzz, ReadsOrRefusesAText) {
  const std::vector<std::string> own = {"cache",          "w",       "testing.scale",
                                        "testing.concat", "'first'", "testing.scatter",
                                        "testing.weigh"};
  Fuzz(folder_.path, "step.anyop", [&](const std::string& text, fuzz::Random& random) {
    const std::string body = text.substr(0, text.size() - std::strlen(kTextEnd));
    return fuzz::ChangedGraphText(body, random, own) +
           (random() % 50 ? std::string("\n") + kTextEnd : "");
  });
}

}  // namespace
}  // namespace anyop::saved_fuzz_test
