// SPDX-License-Identifier: Apache-2.0
#include "graph/saved/save.h"

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "graph/ir/text.h"
#include "graph/saved/files.h"
#include "graph/saved/load.h"
#include "graph/saved/safetensors.h"
#include "graph/saved/save_testing.h"

namespace anyop::save_test {
namespace {

using ::anyop::testing_graphs::Decoder;
using ::anyop::testing_graphs::Folder;
using ::anyop::testing_graphs::kLoaded;

TEST(SavedGraph, IsTheGraphThatWasSaved) {
  const Folder folder;
  Executable saved(Decoder());
  WriteGraphs(folder.path, std::vector<GraphToSave>{{"step", &saved.graph()}});
  LoadedGraphs loaded = ReadGraphs(folder.path);
  ASSERT_EQ(loaded.graphs.size(), 1u);
  EXPECT_EQ(loaded.graphs[0].name, "step");
  EXPECT_EQ(loaded.metadata, "{}");
  Executable read(std::move(loaded.graphs[0].graph), kLoaded);
  EXPECT_EQ(Print(read.graph()), Print(saved.graph()));
  const Array x = Counting({3, 4}), slots = Ints({0, 5, 1});
  for (int k = 0; k < 2; ++k) {
    const std::vector<Array> a = Replay(saved, {x, slots, 0.25}),
                             b = Replay(read, {x, slots, 0.25});
    EXPECT_EQ(Values(a[0]), Values(b[0])) << k;
    EXPECT_EQ(Values(a[1]), Values(b[1])) << k;
  }
}

TEST(SavedGraph, KeepsWhatItsStateIs) {
  const Folder folder;
  const Array cache = Array::Full({8, 4}, DType::kF32, 7);
  Executable saved(Decoder(cache));
  WriteGraphs(folder.path, std::vector<GraphToSave>{{"step", &saved.graph()}});
  for (int k = 0; k < 2; ++k) {  // a replay writes to its own copy of the file's pages
    Executable read(std::move(ReadGraphs(folder.path).graphs[0].graph), kLoaded);
    const std::vector<Array> out = Replay(read, {Counting({1, 4}), Ints({2}), 1.0});
    EXPECT_EQ(Values(out[1]), (std::vector<float>{7, 7, 7, 7, 0, 1, 2, 3})) << k;
  }
}

TEST(SavedGraph, TakesEmptyCachesAsShapesOnly) {
  const Folder folder;
  const Array cache = Array::Zeros({1 << 16, 4}, DType::kF32);
  Executable saved(Decoder(cache));
  WriteGraphs(folder.path, std::vector<GraphToSave>{{"step", &saved.graph()}});
  EXPECT_LT(std::filesystem::file_size(folder.path + "/weights.safetensors"), 4096u);
  Executable read(std::move(ReadGraphs(folder.path).graphs[0].graph), kLoaded);
  const std::vector<Array> out = Replay(read, {Counting({1, 4}), Ints({2}), 1.0});
  EXPECT_EQ(Values(out[1]), (std::vector<float>{0, 0, 0, 0, 0, 1, 2, 3}));
}

TEST(SavedGraph, SharesStateAndWeightsWithOthersOfItsFolder) {
  const Folder folder;
  const Array cache = Array::Full({8, 4}, DType::kF32, 7), w = Array::Full({4096}, DType::kF32, 2);
  Executable one(Decoder(cache, w)), two(Decoder(cache, w.Clone()));
  WriteGraphs(folder.path,
              std::vector<GraphToSave>{{"prefill", &one.graph()}, {"decode", &two.graph()}});
  // What each graph has packed and computed for itself is there once.
  EXPECT_EQ(TensorFile(folder.path + "/weights.safetensors").names().size(), 3u);
  LoadedGraphs loaded = ReadGraphs(folder.path);
  Executable prefill(std::move(loaded.graphs[0].graph), kLoaded),
      decode(std::move(loaded.graphs[1].graph), kLoaded);
  Replay(prefill, {Counting({1, 4}), Ints({3}), 1.0});
  const std::vector<Array> out = Replay(decode, {Counting({1, 4}), Ints({2}), 1.0});
  EXPECT_EQ(Values(out[1]), (std::vector<float>{7, 7, 7, 7, 0, 1, 2, 3}));
  Executable alone(std::move(ReadGraph(folder.path, "decode").graphs[0].graph), kLoaded);
  EXPECT_EQ(Values(Replay(alone, {Counting({1, 4}), Ints({2}), 1.0})[1]), Values(out[1]));
}

TEST(SavedGraph, KeepsViewsOfOneMemory) {
  const Folder folder;
  const Array memory = Counting({4, 6});
  GraphBuilder b;
  const int x = b.Input("x", "f32[4, 2]");
  const int left = b.State("left", memory.Slice(1, 0, 2)),
            all = b.State("all", memory, /*is_frozen=*/false);
  GraphBuilder::CallOptions into;
  into.into = {left};
  b.Call(*Find("testing.scale"), {ValueArgument(x), FloatArgument(-1)}, into);
  b.Output(all);
  Executable saved(b.Finish());
  WriteGraphs(folder.path, std::vector<GraphToSave>{{"views", &saved.graph()}});
  Executable read(std::move(ReadGraphs(folder.path).graphs[0].graph), kLoaded);
  const std::vector<Array> out = Replay(read, {Counting({4, 2})});
  const std::vector<float> want = Values(Replay(saved, {Counting({4, 2})})[0]);
  EXPECT_EQ(Values(out[0]), want);
  EXPECT_EQ(want[7], -3);
}

TEST(SavedGraph, KeepsStateThatOverlapsWhereItIs) {
  const Folder folder;
  const Array memory = Counting({6});
  GraphBuilder b;
  const int low = b.State("low", memory.Slice(0, 0, 4)),
            high = b.State("high", memory.Slice(0, 2, 6));
  GraphBuilder::CallOptions into;
  into.into = {low};
  b.Call(*Find("testing.scale"), {ValueArgument(b.Input("x", "f32[4]")), FloatArgument(-1)}, into);
  b.Output(high);
  Executable saved(b.Finish());
  WriteGraphs(folder.path, std::vector<GraphToSave>{{"views", &saved.graph()}});
  Executable read(std::move(ReadGraphs(folder.path).graphs[0].graph), kLoaded);
  EXPECT_EQ(Values(Replay(read, {Counting({4})})[0]), (std::vector<float>{-2, -3, 4, 5}));
}

TEST(SavedGraph, ReplacesASavedGraphAndNothingElse) {
  const Folder folder;
  Executable saved(Decoder());
  const std::vector<GraphToSave> graphs{{"step", &saved.graph()}};
  WriteGraphs(folder.path + "/", graphs);
  SaveOptions options;
  options.metadata = R"({"a": [1, 2]})";
  options.files = {{"note.txt", "hello"}};
  WriteGraphs(folder.path, graphs, options);
  EXPECT_EQ(ReadGraphs(folder.path).metadata, R"({"a":[1,2]})");
  EXPECT_EQ(ReadText(folder.path + "/note.txt"), "hello");
  const Folder other;
  std::filesystem::create_directory(other.path);
  std::ofstream(other.path + "/mine.txt") << "mine";
  EXPECT_EQ(ErrorOf([&] { WriteGraphs(other.path, graphs); }),
            other.path +
                " is there already and is no saved graph. Try another path, or remove it first.");
  EXPECT_EQ(ReadText(other.path + "/mine.txt"), "mine");
  // Nothing is left behind.
  int entries = 0;
  for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator(folder.parent)) {
    ++entries;
  }
  EXPECT_EQ(entries, 1);
}

// The names below a folder, with what files hold.
std::map<std::string, std::string> Tree(const std::string& path) {
  std::map<std::string, std::string> tree;
  for (const auto& e : std::filesystem::recursive_directory_iterator(path)) {
    const bool is_file = e.symlink_status().type() == std::filesystem::file_type::regular;
    tree[e.path().string().substr(path.size())] = is_file ? ReadText(e.path().string()) : "";
  }
  return tree;
}

TEST(SavedGraph, RefusesAFolderThatHoldsWhatItDidNotWrite) {
  Executable saved(Decoder());
  const std::vector<GraphToSave> graphs{{"step", &saved.graph()}};
  const std::pair<std::string, std::function<void(const std::string&)>> cases[] = {
      {"mine.txt", [](const std::string& at) { std::ofstream(at) << "mine"; }},
      {"mine", [](const std::string& at) { std::filesystem::create_directory(at); }},
      {"step.anyop",
       [](const std::string& at) {
         std::filesystem::remove(at);
         std::filesystem::create_symlink("/etc/hostname", at);
       }},
      {"other.anyop", [](const std::string& at) { std::ofstream(at) << "mine"; }},
  };
  for (const auto& [name, put] : cases) {
    const Folder folder;
    WriteGraphs(folder.path, graphs);
    put(folder.path + "/" + name);
    const auto before = Tree(folder.parent);
    EXPECT_EQ(ErrorOf([&] { WriteGraphs(folder.path, graphs); }),
              folder.path + " is there already and holds '" + name +
                  "', which is not of the graph that was saved there. Try another path, or remove "
                  "it first.");
    EXPECT_EQ(Tree(folder.parent), before);
  }
}

TEST(SavedGraph, RefusesALink) {
  const Folder folder;
  Executable saved(Decoder());
  const std::vector<GraphToSave> graphs{{"step", &saved.graph()}};
  WriteGraphs(folder.parent + "/real", graphs);
  for (const char* target : {"real", "nothing"}) {
    std::filesystem::create_symlink(target, folder.path);
    const auto before = Tree(folder.parent);
    for (const char* slash : {"", "/"}) {
      EXPECT_EQ(ErrorOf([&] { WriteGraphs(folder.path + slash, graphs); }),
                folder.path +
                    " is there already and is a symbolic link. Try another path, or remove it "
                    "first.");
    }
    EXPECT_EQ(Tree(folder.parent), before);
    std::filesystem::remove(folder.path);
  }
}

// A manifest that somebody else wrote names files to remove; those of other folders stay.
TEST(SavedGraph, RemovesNothingOutsideOfItsFolder) {
  const Folder folder;
  Executable saved(Decoder());
  const std::vector<GraphToSave> graphs{{"step", &saved.graph()}};
  WriteGraphs(folder.path, graphs);
  std::ofstream(folder.parent + "/mine.txt") << "mine";
  std::string manifest = ReadText(folder.path + "/manifest.json");
  const std::string files = "\"files\": {";
  manifest.insert(manifest.find(files) + files.size(), "\"../mine.txt\": \"\",");
  std::ofstream(folder.path + "/manifest.json") << manifest;
  WriteGraphs(folder.path, graphs);
  EXPECT_EQ(ReadText(folder.parent + "/mine.txt"), "mine");
  EXPECT_EQ(ReadGraphs(folder.path).graphs.size(), 1u);
}

TEST(SavedGraph, LeavesWhatIsThereWhereSavingFails) {
  const Folder folder;
  Executable saved(Decoder());
  const std::vector<GraphToSave> graphs{{"step", &saved.graph()}};
  WriteGraphs(folder.path, graphs);
  SaveOptions bad;
  bad.files = {{"step.anyop", "clash"}};  // found when it is written
  EXPECT_NE(ErrorOf([&] { WriteGraphs(folder.path, graphs, bad); }), "");
  EXPECT_EQ(ReadGraphs(folder.path).graphs.size(), 1u);
  bad.files = {{"../x", ""}};
  EXPECT_EQ(ErrorOf([&] { WriteGraphs(folder.path, graphs, bad); }),
            "save: a file cannot be called '../x'.");
  bad.files = {};
  bad.metadata = "{";
  EXPECT_NE(ErrorOf([&] { WriteGraphs(folder.path, graphs, bad); }).find("the metadata is damaged"),
            std::string::npos);
  const std::vector<GraphToSave> named{{"a/b", &saved.graph()}};
  EXPECT_NE(ErrorOf([&] { WriteGraphs(folder.path, named); }).find("a graph is called 'a/b'"),
            std::string::npos);
  const std::vector<GraphToSave> twice{graphs[0], graphs[0]};
  EXPECT_EQ(ErrorOf([&] { WriteGraphs(folder.path, twice); }), "save: two graphs are called step.");
  EXPECT_EQ(ErrorOf([&] { WriteGraphs(folder.path, {}); }), "save: there is no graph to save.");
  EXPECT_NE(ErrorOf([&] {
              WriteGraphs("/nonexistent/x", graphs);
            }).find("/nonexistent/x cannot be written: No such file or directory."),
            std::string::npos);
}

// Sixteen times the tensors must not take much more than sixteen times as long.
TEST(SavedGraph, TakesTimeInProportionToItsTensors) {
  const auto seconds = [](int tensors) {
    GraphBuilder b;
    std::vector<int> parts;
    for (int k = 0; k < tensors; ++k) {
      parts.push_back(b.State("weight_" + std::to_string(k), Counting({2}), true));
    }
    b.Output(b.Call("testing.concat", {ValuesArgument(parts)})[0]);
    const Graph graph = b.Finish();
    const Folder folder;
    const std::clock_t begin = std::clock();
    WriteGraphs(folder.path, std::vector<GraphToSave>{{"step", &graph}});
    EXPECT_EQ(ReadGraphs(folder.path).graphs[0].graph.values.size(), std::size_t(tensors + 1));
    return double(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  EXPECT_LT(seconds(4800), 16 * 3 * (seconds(300) + 1e-3));
}

TEST(SavedGraph, TellsHowFarItIs) {
  const Folder folder;
  Executable saved(Decoder(Counting({8, 4})));
  std::vector<std::int64_t> told;
  SaveOptions options;
  options.progress_data = &told;
  options.progress = [](void* data, std::int64_t written, std::int64_t all) {
    EXPECT_LE(written, all);
    static_cast<std::vector<std::int64_t>*>(data)->push_back(written);
  };
  WriteGraphs(folder.path, std::vector<GraphToSave>{{"step", &saved.graph()}}, options);
  ASSERT_FALSE(told.empty());
  EXPECT_GT(told.back(), 8 * 4 * 4);
}

TEST(TensorFile, AlignsTensorsAndKeepsThem) {
  const Folder folder;
  const Array bytes = Array::Full({3}, DType::kU8, 5), wide = Array::Full({3}, DType::kF64, 2.5);
  const Array line = Counting({16}), flipped = Counting({2, 3}).Transpose(0, 1);
  WriteTensors(folder.path, {{"bytes", bytes, false},
                             {"none", Array::Empty({0, 4}, DType::kBF16), false},
                             {"wide", wide, true},
                             {"line", line, true},
                             {"flipped", flipped, false}});
  const TensorFile file(folder.path);
  EXPECT_EQ(file.names(), (std::vector<std::string>{"bytes", "flipped", "line", "none", "wide"}));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.Get("line").data()) % 64, 0u);
  for (const char* name : {"wide", "flipped", "bytes"}) {
    const Array a = file.Get(name);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % std::uintptr_t(Bytes(a.dtype())), 0u);
  }
  EXPECT_EQ(Values(file.Get("flipped")), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(file.Get("wide").at<double>(2), 2.5);
  EXPECT_EQ(file.Get("none").dim(1), 4);
  file.MakeWritable({"wide"});
  file.Get("wide").at<double>(0) = 1;
  EXPECT_EQ(TensorFile(folder.path).Get("wide").at<double>(0), 2.5);
  EXPECT_EQ(ErrorOf([&] { file.Get("lime"); }),
            folder.path + ": there is no tensor 'lime'. Did you mean 'line'?");
}

}  // namespace
}  // namespace anyop::save_test
