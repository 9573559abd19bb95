// SPDX-License-Identifier: Apache-2.0
// Folders that are damaged, or do not fit.
#include "graph/saved/load.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>

#include "graph/saved/files.h"
#include "graph/saved/json_text.h"
#include "graph/saved/manifest.h"
#include "graph/saved/safetensors.h"
#include "graph/saved/save.h"
#include "graph/saved/save_testing.h"

namespace anyop::load_test {
namespace {

using ::anyop::testing_graphs::Decoder;
using ::anyop::testing_graphs::Folder;
using ::anyop::testing_graphs::kLoaded;

class DamagedGraph : public ::testing::Test {
 protected:
  void SetUp() override {
    Executable saved(Decoder(Counting({8, 4}), Counting({4})));
    WriteGraphs(folder_.path, std::vector<GraphToSave>{{"step", &saved.graph()}});
  }
  std::string File(const char* name) const { return folder_.path + "/" + name; }
  void Write(const char* name, const std::string& text) const {
    std::ofstream(File(name), std::ios::binary) << text;
  }
  // Replaces the first `from` of a file, which must be there.
  void Edit(const char* name, const std::string& from, const std::string& to) const {
    std::string text = ReadText(File(name));
    const std::size_t at = text.find(from);
    ASSERT_NE(at, text.npos) << from << " in " << text;
    Write(name, text.replace(at, from.size(), to));
  }
  // Without verifying: what is wrong behind digests that somebody made right.
  std::string LoadError(int* code = nullptr) const {
    return ErrorOf([&] { ReadGraphs(folder_.path, {false}); }, code);
  }
  std::string VerifyError() const {
    return ErrorOf([&] { ReadGraphs(folder_.path); });
  }
  // A header of this text in front of `bytes` zeros.
  void WriteWeights(const std::string& header, std::size_t bytes) const {
    std::uint64_t length = header.size();
    std::string text(sizeof length, 0);
    std::memcpy(text.data(), &length, sizeof length);
    Write(kWeightsFile, text + header + std::string(bytes, '\0'));
  }
  void ExpectError(const std::string& part) const {
    const std::string error = LoadError();
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }

  const Folder folder_;
};

TEST_F(DamagedGraph, IsMissing) {
  int code = 0;
  std::filesystem::remove_all(folder_.path);
  EXPECT_EQ(LoadError(&code), folder_.path + " is no saved graph: there is no " +
                                  File(kManifestFile) + ". Try the path it was saved to.");
  EXPECT_EQ(code, ANYOP_NOT_AVAILABLE);
}

TEST_F(DamagedGraph, LacksAGraphOrFile) {
  EXPECT_EQ(ErrorOf([&] { ReadGraph(folder_.path, "stop"); }),
            folder_.path + ": there is no graph 'stop', but step. Try one of these.");
  std::filesystem::remove(File("step.anyop"));
  EXPECT_EQ(LoadError(), File("step.anyop") + " cannot be read: No such file or directory.");
  EXPECT_NE(ErrorOf([&] { ReadGraphs(folder_.path); }), "");
  std::filesystem::remove(File(kWeightsFile));
  EXPECT_EQ(LoadError(), File(kWeightsFile) + " cannot be read: No such file or directory.");
}

TEST_F(DamagedGraph, HasABitThatFlipped) {
  EXPECT_EQ(VerifyError(), "");
  const std::pair<const char*, std::string> cases[] = {
      {"step.anyop", File("step.anyop") + " has changed since it was saved: its digest is "},
      {kWeightsFile, ""},
      {kManifestFile, ""},
  };
  for (const auto& [name, begin] : cases) {
    const std::string whole = ReadText(File(name));
    for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 97) {
      std::string text = whole;
      text[at] = char(text[at] ^ 1 << at % 8);
      Write(name, text);
      const std::string error = VerifyError();
      EXPECT_NE(error, "") << name << " at " << at;
      EXPECT_EQ(error.substr(0, begin.size()), begin);
    }
    Write(name, whole);
  }
  EXPECT_EQ(VerifyError(), "");
}

TEST_F(DamagedGraph, HasAWeightThatChanged) {
  std::string whole = ReadText(File(kWeightsFile));
  whole.back() = char(whole.back() ^ 1);
  Write(kWeightsFile, whole);
  const std::string error = VerifyError();
  // Tensors lie in the file in the order of their addresses when the graph was saved.
  const bool is_packed = error.find("the tensor packed") != std::string::npos;
  EXPECT_EQ(error.substr(0, error.find(" its digest")),
            File("step.anyop") + ": graph, line " +
                (is_packed ? "5, column 1: the tensor packed" : "6, column 1: the tensor v12") +
                " of " + File(kWeightsFile) + " has changed since it was saved:");
  EXPECT_NE(error.find("Copy or save the graph again, or load it without verifying."),
            std::string::npos);
  EXPECT_EQ(LoadError(), "");
}

TEST_F(DamagedGraph, HasAManifestThatSomebodyEdited) {
  Edit(kManifestFile, "\"metadata\": {}", "\"metadata\": {\"a\": 1}");
  EXPECT_EQ(VerifyError(), File(kManifestFile) +
                               " has changed since it was saved: its digest does not fit it. Save "
                               "the graph again, or load it without verifying.");
  EXPECT_EQ(ReadGraphs(folder_.path, {false}).metadata, R"({"a":1})");
}

TEST_F(DamagedGraph, LostTheEndOfItsText) {
  const std::string whole = ReadText(File("step.anyop"));
  for (std::size_t at = whole.size() - 1; at > 0; at = at < 9 ? at - 1 : at - 7) {
    Write("step.anyop", whole.substr(0, at));
    EXPECT_EQ(LoadError(), File("step.anyop") +
                               " does not end with a line 'end': the rest of it is missing. Copy "
                               "or save the graph again.");
    EXPECT_NE(VerifyError(), "");
  }
}

TEST_F(DamagedGraph, ChangedAFileBesideIt) {
  Executable saved(Decoder());
  SaveOptions options;
  options.files = {{"note.txt", "hello"}, {"empty.txt", ""}};
  WriteGraphs(folder_.path, std::vector<GraphToSave>{{"step", &saved.graph()}}, options);
  EXPECT_EQ(VerifyError(), "");
  Write("note.txt", "hullo");
  const std::string error = VerifyError();
  EXPECT_EQ(error.substr(0, error.find(" its digest")),
            File("note.txt") + " has changed since it was saved:");
  EXPECT_EQ(LoadError(), "");
}

TEST_F(DamagedGraph, HasDamagedJson) {
  const std::string whole = ReadText(File(kManifestFile));
  Write(kManifestFile, whole.substr(0, whole.size() / 2));
  ExpectError(File(kManifestFile) + " is damaged: parse error at line ");
  Write(kManifestFile, "[]");
  EXPECT_EQ(LoadError(), File(kManifestFile) + " lacks \"format\".");
  Write(kManifestFile, R"({"format": "cake", "version": 1})");
  EXPECT_EQ(LoadError(), File(kManifestFile) + " is no manifest of saved graphs.");
  Write(kManifestFile, std::string(100, '[') + std::string(100, ']'));
  EXPECT_EQ(LoadError(), File(kManifestFile) + " is nested deeper than 64 values.");
}

TEST_F(DamagedGraph, HasAPipeInPlaceOfAFile) {
  for (const char* name : {kManifestFile, kWeightsFile}) {
    const std::string path = File(name), whole = ReadText(path);
    std::filesystem::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(LoadError(), path + " cannot be read: it is no regular file.");
    std::filesystem::remove(path);
    Write(name, whole);
  }
}

TEST(Json, DepthDoesNotCountWhatStandsInTexts) {
  EXPECT_EQ(JsonDepth(R"({"a": [[1], {"b": 2}], "c": []})"), 3);
  EXPECT_EQ(JsonDepth(R"({"[[[": "}}}[\"[[", "a\\": [1]})"), 2);
  EXPECT_EQ(JsonDepth("3"), 0);
  EXPECT_EQ(JsonDepth("]]]] [[ \"\\"), 0);
}

// What reading a file of so many tensors without an element computes, in seconds.
double ReadEmptyTensors(int tensors) {
  std::string header = "{";
  for (int i = 0; i < tensors; ++i) {
    header += (i ? ",\"t" : "\"t") + std::to_string(i) +
              R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  }
  header += "}";
  const Folder folder;
  std::filesystem::create_directory(folder.path);
  const std::uint64_t length = header.size();
  const std::string path = folder.path + "/many.safetensors";
  WriteText(path, std::string(reinterpret_cast<const char*>(&length), sizeof length) + header);
  const std::clock_t begin = std::clock();
  const TensorFile file(path);
  EXPECT_EQ(file.names().size(), std::size_t(tensors));
  return double(std::clock() - begin) / CLOCKS_PER_SEC;
}

// Each took as long as all before it: 20,000 took seconds. Eight times as many take 8 times as long
// where each costs the same and 64 times where it does not. A limit in seconds would depend on the
// machine and on the sanitizer.
TEST(TensorFile, OfManyEmptyTensorsIsReadAtOnce) {
  const double few =
      std::min({ReadEmptyTensors(4'000), ReadEmptyTensors(4'000), ReadEmptyTensors(4'000)});
  EXPECT_LT(ReadEmptyTensors(32'000), 24 * few) << "it is quadratic";
}

TEST_F(DamagedGraph, IsOfAnotherVersion) {
  int code = 0;
  Edit(kManifestFile, "\"version\": 2", "\"version\": 3");
  EXPECT_EQ(LoadError(&code), File(kManifestFile) +
                                  " is of format version 3, but this anyop reads 2. Try a newer "
                                  "anyop.");
  EXPECT_EQ(code, ANYOP_NOT_AVAILABLE);
  Edit(kManifestFile, "\"version\": 3", "\"version\": 1");  // which had no digests
  EXPECT_EQ(VerifyError(), File(kManifestFile) +
                               " is of format version 1, but this anyop reads 2. Save the graph "
                               "again.");
}

TEST_F(DamagedGraph, CallsAnOperatorThatIsNotLoaded) {
  Edit(kManifestFile, "\"testing.scale\"", "\"other.scale\"");
  EXPECT_EQ(
      LoadError(),
      folder_.path + " calls other.scale, which is not loaded. Load the library other first.");
  Edit(kManifestFile, "\"other.scale\"", "\"testing.scaled\"");
  EXPECT_EQ(LoadError(),
            folder_.path +
                " calls testing.scaled, which is not loaded. The library testing here is "
                "another version.");
}

TEST_F(DamagedGraph, CallsAnOperatorWhoseSignatureHasChanged) {
  Edit(kManifestFile, "\"hash\": \"", "\"hash\": \"0");
  Edit(kManifestFile, "\"signature\": \"scale(", "\"signature\": \"scale(old: int, ");
  EXPECT_EQ(LoadError(),
            folder_.path +
                " calls testing.scale, whose signature has changed since it was saved.\n"
                "  saved:  scale(old: int, x: T[..., d], s: float) -> (y: T[..., d] over x) where "
                "T in f32, s < 1e30\n"
                "  loaded: scale(x: T[..., d], s: float) -> (y: T[..., d] over x) where T in f32, "
                "s < 1e30\n"
                "Save the graph again.");
}

TEST_F(DamagedGraph, HasAHeaderThatLies) {
  const std::string whole = ReadText(File(kWeightsFile));
  Write(kWeightsFile, whole.substr(0, 5));
  ExpectError("it holds 5 bytes, but must hold a header.");
  Write(kWeightsFile, whole.substr(0, whole.size() - 1));
  ExpectError("outside of the file");
  Write(kWeightsFile, whole + "x");
  ExpectError("but the file holds");
  Write(kWeightsFile, whole.substr(0, 40));
  ExpectError("bytes long, but the file holds 32 bytes");
  Write(kWeightsFile, std::string(8, '\xff') + whole.substr(8));
  ExpectError("its header is 18446744073709551615 bytes long");
  WriteWeights("[1]", 0);
  ExpectError("its header is no JSON object.");
  const auto row = [](const char* dtype, const char* shape, const char* range) {
    return std::string("{\"dtype\": \"") + dtype + "\", \"shape\": " + shape +
           ", \"data_offsets\": " + range + "}";
  };
  const std::pair<std::string, std::string> cases[] = {
      {row("F32", "[2]", "[0, 1000]"), "a lies outside of the file"},
      {row("F32", "[2]", "[-8, 0]"), "a lies outside of the file"},
      {row("F32", "[2]", "[8, 0]"), "a lies outside of the file"},
      {row("F32", "[2]", "[0]"), "a lies outside of the file"},
      {row("F32", "[2]", "[0, 18446744073709551615]"), "must hold whole numbers"},
      {row("F32", "[2]", "[0, 8.5]"), "must hold whole numbers"},
      {row("F32", "[3]", "[0, 8]"), "a has 8 bytes, which do not fit its shape."},
      {row("F32", "[-2]", "[0, 8]"), "a has 8 bytes, which do not fit its shape."},
      {row("F32", "[4611686018427387904, 4]", "[0, 0]"), "which do not fit its shape."},
      {row("F32", "[1,1,1,1,1,1,1,1,2]", "[0, 8]"), "which do not fit its shape."},
      {row("F31", "[2]", "[0, 8]"), "a has the dtype 'F31', which is unknown."},
      {"3", "lacks \"dtype\""},
      {R"({"dtype": 3, "shape": [], "data_offsets": []})", "\"dtype\" is of another kind"},
      {row("F32", "[2]", "[0, 8]") + ", \"b\": " + row("F32", "[2]", "[4, 12]"),
       "two tensors overlap."},
      {row("F32", "[1]", "[8, 12]"), "there is a gap before a tensor."},
      {row("F32", "[1]", "[0, 4]"), "the tensors take 4 bytes, but the file holds 12."},
  };
  for (const auto& [text, error] : cases) {
    WriteWeights("{\"a\": " + text + "}", 12);
    ExpectError(error);
  }
}

TEST_F(DamagedGraph, LacksAWeight) {
  Edit(kManifestFile, "\"packed\": \"packed\"", "\"packed\": \"u\"");
  EXPECT_EQ(LoadError().substr(0, LoadError().find('\n')),
            File("step.anyop") +
                ": graph, line 5, column 1: packed is the tensor u, which "
                "weights.safetensors lacks.");
  Edit(kManifestFile, "\"packed\": \"u\"", "\"v\": \"packed\"");
  ExpectError("packed is missing in manifest.json");
}

TEST_F(DamagedGraph, HasAWeightOfAnotherType) {
  Edit(kWeightsFile, R"("packed": {"dtype": "F32")", R"("packed": {"dtype": "I32")");
  ExpectError("line 5, column 1: packed is i32[2, 4], but the text says f32[2, 4].");
  Edit(kWeightsFile, R"("packed": {"dtype": "I32", "shape": [2, 4])",
       R"("packed": {"dtype": "F32", "shape": [4, 2])");
  ExpectError("packed is f32[4, 2], but the text says f32[2, 4].");
}

TEST_F(DamagedGraph, HasADamagedText) {
  Edit("step.anyop", "testing.scale(x", "testing.scale(z");
  ExpectError("step.anyop: graph, line 7, column 31: no value and no size above has this name.");
}

TEST_F(DamagedGraph, SaysThatReadOnlyMemoryIsWritten) {
  Edit("step.anyop", "state cache", "frozen cache");
  ExpectError("cache is cache, which is written, but is frozen state of the graph.");
}

TEST_F(DamagedGraph, HasViewsOutsideOfTheirMemory) {
  const auto view = [](const char* offset, const char* shape, const char* strides) {
    return std::string("\"cache\": {\"memory\": \"cache\", \"dtype\": \"f32\", \"offset\": ") +
           offset + ", \"shape\": " + shape + ", \"strides\": " + strides + "}";
  };
  std::string now = "\"cache\": \"cache\"";
  const auto put = [&](const std::string& text) {
    Edit(kManifestFile, now, text);
    now = text;
  };
  put(view("0", "[8, 4]", "[4, 1]"));
  EXPECT_EQ(LoadError(), "");
  const char* const wrong[][3] = {{"4", "[8, 4]", "[4, 1]"},
                                  {"-4", "[8, 4]", "[4, 1]"},
                                  {"0", "[8, 4]", "[5, 1]"},
                                  {"0", "[8, 4]", "[-4, 1]"},
                                  {"0", "[8, 4]", "[4]"},
                                  {"0", "[8, 4]", "[4611686018427387904, 1]"},
                                  {"9223372036854775804", "[8, 4]", "[4, 1]"},
                                  {"2", "[7, 4]", "[4, 1]"},
                                  {"0", "[0, 4]", "[4, 1]"}};
  for (const auto& w : wrong) {
    put(view(w[0], w[1], w[2]));
    ExpectError("cache lies outside of its memory of 128 bytes.");
  }
}

TEST_F(DamagedGraph, HasZerosThatNoMemoryHolds) {
  Executable saved(Decoder());
  WriteGraphs(folder_.path, std::vector<GraphToSave>{{"step", &saved.graph()}});
  EXPECT_EQ(LoadError(), "");
  const std::string whole = ReadText(File(kManifestFile));
  const std::size_t at = whole.find("\"shape\": [\n    8,");
  ASSERT_NE(at, whole.npos) << whole;
  for (const char* size : {"-8", "9223372036854775807"}) {
    Write(kManifestFile,
          std::string(whole).replace(at, 17, "\"shape\": [\n    " + std::string(size) + ","));
    ExpectError("cache has a shape that no tensor has.");
  }
  Write(kManifestFile, std::string(whole).replace(at, 17, "\"shape\": [\n    99999999999999,"));
  ExpectError("cache: no memory for");
}

// Bits flipped, bytes put in, ends cut off: an error, or a graph that replays. Other seeds:
// --gtest_shuffle --gtest_repeat=10.
TEST_F(DamagedGraph, NeverCrashes) {
  std::mt19937 random(unsigned(7 + ::testing::UnitTest::GetInstance()->random_seed()));
  const Array x = Counting({2, 4}), slots = Ints({0, 5});
  int errors = 0;
  for (const char* name : {"manifest.json", "step.anyop", "weights.safetensors"}) {
    const std::string whole = ReadText(File(name));
    // The header is where it matters.
    const std::size_t reach = std::min<std::size_t>(whole.size(), 4000);
    for (int k = 0; k < 600; ++k) {
      std::string text = whole;
      for (int n = k % 4; n >= 0; --n) {
        const std::size_t at = random() % reach;
        switch (random() % 5) {
          case 0:
            text[at % text.size()] = char(random());
            break;
          case 1:
            text[at % text.size()] = char(text[at % text.size()] ^ 1 << random() % 8);
            break;
          case 2:
            text.insert(at % text.size(), 1, "0123456789[]{}(),:\"*+-=_\n"[random() % 25]);
            break;
          case 3:
            text.erase(at % text.size(), 1 + random() % 3);
            break;
          default:
            if (random() % 8 == 0) text.resize(1 + random() % text.size());
        }
        if (text.empty()) text = "x";
      }
      Write(name, text);
      try {
        Executable read(std::move(ReadGraphs(folder_.path, {false}).graphs.at(0).graph), kLoaded);
        Replay(read, {x, slots, 0.5});
      } catch (const Error&) {
        ++errors;
      } catch (const std::out_of_range&) {
        ++errors;  // a manifest without graphs
      }
    }
    Write(name, whole);
  }
  EXPECT_GT(errors, 400);
  EXPECT_EQ(LoadError(), "");
}

}  // namespace
}  // namespace anyop::load_test
