// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/tuned.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "platform/env.h"
#include "platform/log.h"
#include "runtime/testing/testing.h"

namespace anyop::tuned_test {
namespace {

namespace fs = std::filesystem;

const std::string kMachine = "A processor\tavx2 fma";

std::vector<TunedChoice> Choices() {
  return {{"a.linear", "1.0", "0123", "T=bf16, form 2", "cpu_dot", "cpu_split", 1200.5, 3400},
          {"b.more", "", "4567", "", "one", "two", 0.5, 0}};
}

std::string Read(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// What ParseTuned says of a text.
std::string Problem(const std::string& text, const std::string& machine = kMachine) {
  std::vector<TunedChoice> choices = Choices();
  const std::string problem = ParseTuned(text, machine, &choices);
  EXPECT_EQ(choices.empty(), !problem.empty());
  return problem;
}

// A folder of its own, ANYOP_TUNED and ANYOP_CACHE as they are given, and nothing read so far.
class TunedFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "anyop_tuned_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    logged.clear();
    SetLogSink([](int level, const char* text) { logged += std::to_string(level) + text + "|"; });
    UseTuned(nullptr);
  }
  void TearDown() override {
    for (const char* name : {"ANYOP_TUNED", "ANYOP_CACHE"}) ::unsetenv(name);
    SetLogSink(nullptr);
    UseTuned(std::make_unique<const TunedTable>());
    fs::remove_all(folder_);
  }
  static TunedChoice OfSpin() {
    const Operator& op = *Find("testing.spin");
    return {op.name, TunedVersion(op), op.contract->hash, "", "cpu_slow", "cpu_fast", 9, 1};
  }
  static const TunedChoice* FindSpin() {
    return FindTuned(*Find("testing.spin"), "", "cpu_slow", "cpu_fast");
  }

  fs::path folder_;
  static inline std::string logged;
};

TEST(Tuned, AFileIsTheseLines) {
  const std::string text = FormatTuned(kMachine, Choices());
  EXPECT_TRUE(text.starts_with(
      "anyop tuned 1\nmachine\tA processor\tavx2 fma\n"
      "choice\ta.linear\t1.0\t0123\tT=bf16, form 2\tcpu_dot\tcpu_split\t1200.5\t3400.0\n"
      "choice\tb.more\t\t4567\t\tone\ttwo\t0.5\t0.0\n"
      "digest\t"))
      << text;
  std::vector<TunedChoice> got;
  ASSERT_EQ(ParseTuned(text, kMachine, &got), "");
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(FormatTuned(kMachine, got), text);
  EXPECT_EQ(got[0].call, "T=bf16, form 2");
  EXPECT_FALSE(got[0].second_is_faster());
  EXPECT_TRUE(got[1].second_is_faster());
}

TEST(Tuned, AFileMayHoldNoChoice) {
  std::vector<TunedChoice> choices = Choices();
  EXPECT_EQ(ParseTuned(FormatTuned(kMachine, {}), kMachine, &choices), "");
  EXPECT_TRUE(choices.empty());
}

TEST(Tuned, NamesThatWouldEndAFieldBecomeSpaces) {
  std::vector<TunedChoice> choices = Choices(), got;
  choices[0].first = "a\tb\nc";
  ASSERT_EQ(ParseTuned(FormatTuned(kMachine, choices), kMachine, &got), "");
  EXPECT_EQ(got[0].first, "a b c");
  EXPECT_NE(TunedTable(got).Find("a.linear", "T=bf16, form 2", "a\tb\nc", "cpu_split"), nullptr);
}

TEST(Tuned, ATextThatIsNoneOfThisMachineSaysWhy) {
  const std::string text = FormatTuned(kMachine, Choices());
  EXPECT_EQ(Problem(""), "it was not written by `anyop tune`");
  EXPECT_EQ(Problem("to do:\nmilk\n"), "it was not written by `anyop tune`");
  EXPECT_EQ(Problem("anyop tuned 2\nwhatever\n"), "its format is 2, and this anyop reads 1");
  EXPECT_EQ(Problem(text, "Another\tavx2 fma"), "it is of another machine");
  EXPECT_EQ(Problem(text, "A processor\tavx2"), "it is of another machine");
}

TEST(Tuned, ATextWithAnyByteOfItChangedOrMissingIsNotUsed) {
  const std::string text = FormatTuned(kMachine, Choices());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] ^= 1;
    EXPECT_NE(Problem(changed), "") << i;
    EXPECT_NE(Problem(text.substr(0, i)), "") << i;
  }
  EXPECT_NE(Problem(text + "\n"), "");
  EXPECT_NE(Problem(text + text), "");
}

TEST(Tuned, ALineOfOtherFieldsIsDamagedEvenWithADigest) {
  // FormatTuned writes a digest for whatever it is given: a machine of two lines adds one.
  const std::string two = kMachine + "\nchoice\ta\tb";
  EXPECT_EQ(Problem(FormatTuned(two, Choices())), "line 3 is damaged");
  const std::string bad = kMachine + "\nchoice\ta\tb\tc\td\te\tf\t-1\t2";
  EXPECT_EQ(Problem(FormatTuned(bad, Choices())), "line 3 is damaged");
}

TEST_F(TunedFile, IsInTheCacheFolderUnlessTheEnvironmentSaysOtherwise) {
  ::setenv("ANYOP_CACHE", "/some/where", 1);
  EXPECT_TRUE(TunedPath().starts_with("/some/where/tuned-")) << TunedPath();
  EXPECT_EQ(TunedPath().size(), std::string("/some/where/tuned-0123456789abcdef.txt").size());
  ::setenv("ANYOP_TUNED", "my.txt", 1);
  EXPECT_EQ(TunedPath(), "my.txt");
  ::setenv("ANYOP_TUNED", "none", 1);
  EXPECT_EQ(TunedPath(), "");
}

TEST_F(TunedFile, IsReadOnceByTheFirstCallThatAsks) {
  ::setenv("ANYOP_CACHE", (folder_ / "deep" / "cache").c_str(), 1);
  WriteTuned(TunedPath(), {OfSpin()});
  struct ::stat state;
  ASSERT_EQ(::stat((folder_ / "deep" / "cache").c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777, 0700u);
  ASSERT_NE(FindSpin(), nullptr);
  EXPECT_EQ(FindSpin()->first_ns, 9);
  EXPECT_EQ(FindTuned(*Find("testing.spin"), "T=f32", "cpu_slow", "cpu_fast"), nullptr);
  EXPECT_EQ(FindTuned(*Find("testing.spin"), "", "cpu_fast", "cpu_slow"), nullptr);
  EXPECT_TRUE(RemoveTuned(TunedPath()));
  EXPECT_FALSE(RemoveTuned(TunedPath()));
  EXPECT_NE(FindSpin(), nullptr);
  UseTuned(nullptr);
  EXPECT_EQ(FindSpin(), nullptr);
  EXPECT_EQ(logged, "");  // nobody asked for a file
}

TEST_F(TunedFile, IsLeftAloneWhereTheEnvironmentSaysNone) {
  ::setenv("ANYOP_CACHE", folder_.c_str(), 1);
  WriteTuned(TunedPath(), {OfSpin()});
  ::setenv("ANYOP_TUNED", "none", 1);
  EXPECT_EQ(FindSpin(), nullptr);
  EXPECT_EQ(logged, "");
}

TEST_F(TunedFile, ThatCannotBeUsedIsLoggedOnce) {
  const auto warning = [&](const fs::path& file) {
    ::setenv("ANYOP_TUNED", file.c_str(), 1);
    logged.clear();
    UseTuned(nullptr);
    EXPECT_EQ(FindSpin(), nullptr);
    EXPECT_EQ(FindSpin(), nullptr);
    return logged;
  };
  const auto expected = [](const fs::path& file, const std::string& why) {
    return "2tuned choices of " + file.string() + " are not used: " + why + ". Try `anyop tune`.|";
  };
  const fs::path file = folder_ / "t.txt";
  EXPECT_EQ(warning(file), expected(file, "there is no such file"));
  EXPECT_EQ(warning(folder_), expected(folder_, "it is no regular file"));
  std::ofstream(file) << FormatTuned(kMachine, {OfSpin()});
  EXPECT_EQ(warning(file), expected(file, "it is of another machine"));
  WriteTuned(file, {OfSpin()});
  EXPECT_EQ(warning("/dev/null"), expected("/dev/null", "it is no regular file"));
  fs::resize_file(file, fs::file_size(file) - 1);
  EXPECT_EQ(warning(file), expected(file, "its digest does not fit, so that it is damaged"));
}

TEST_F(TunedFile, IsReplacedOnlyWhereTuneWroteIt) {
  const fs::path file = folder_ / "thesis.txt";
  std::ofstream(file) << "my thesis";
  const std::string text =
      "tune: " + file.string() +
      " is there, but was not written by `anyop tune`. Try another name, or remove it.";
  EXPECT_EQ(ErrorOf([&] { WriteTuned(file, {}); }), text);
  EXPECT_EQ(ErrorOf([&] { (void)RemoveTuned(file); }), text);
  EXPECT_EQ(Read(file), "my thesis");
  EXPECT_EQ(ErrorOf([&] { WriteTuned(folder_, {}); }),
            "tune: " + folder_.string() +
                " is there, but was not written by `anyop tune`: it is no regular file. "
                "Try another name, or remove it.");
  std::ofstream(file) << "anyop tuned 7\nof a later anyop\n";
  WriteTuned(file, {OfSpin()});
  EXPECT_EQ(Read(file), FormatTuned(TunedMachine(), {OfSpin()}));
}

TEST_F(TunedFile, ThatCannotBeWrittenSaysWhyAndLeavesNothing) {
  std::ofstream(folder_ / "file") << "x";
  const std::string path = (folder_ / "file" / "t.txt").string();
  EXPECT_EQ(ErrorOf([&] { WriteTuned(path, {}); }),
            "tune: " + path + " cannot be written: Not a directory. Try another folder.");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(TunedFile, ThatIsALinkStaysOne) {
  const fs::path link = folder_ / "link.txt", file = folder_ / "file.txt";
  WriteTuned(file, {});
  fs::create_symlink(file, link);
  WriteTuned(link, {OfSpin()});
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(Read(file), FormatTuned(TunedMachine(), {OfSpin()}));
}

TEST_F(TunedFile, IsWholeWhileOthersReplaceIt) {
  const fs::path file = folder_ / "t.txt";
  std::vector<TunedChoice> few(1, OfSpin()), many(2000, OfSpin());
  WriteTuned(file, few);
  std::vector<std::thread> writers;
  for (const auto* choices : {&few, &many}) {
    writers.emplace_back([&file, choices] {
      for (int i = 0; i < 50; ++i) WriteTuned(file, *choices);
    });
  }
  for (int i = 0; i < 50; ++i) {
    std::vector<TunedChoice> got;
    ASSERT_EQ(ReadTuned(file, &got), "");
    ASSERT_TRUE(got.size() == few.size() || got.size() == many.size());
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(TunedFile, HoldsChoicesOfOperatorsThatMayNotBeLoaded) {
  EXPECT_EQ(WhyStale(OfSpin()), "");
  EXPECT_EQ(WhyStale(Choices()[0]), "no loaded library has the operator");
  TunedChoice other = OfSpin();
  other.contract = "0";
  EXPECT_EQ(WhyStale(other), "it is of another signature of the operator");
}

TEST(Tuned, ACallIsNamedByTheDTypesThatAllCallsBind) {
  const auto contract = ParseContract(
      "f(x: T[n], y: U[n]?, w: 'a' = 'a') -> (z: T[n]) where T in f32 | bf16, U in f32 | f16\n"
      "f(x: T[n], y: U[n]?, w: 'b') -> (z: T[n]) where T in f32 | bf16, U in f32 | f16");
  Bindings b;
  b.dtype_bound = 3;
  b.dtype[0] = std::uint8_t(DType::kBF16);
  b.dtype[1] = std::uint8_t(DType::kF16);
  EXPECT_EQ(TunedCall(*contract, 1, b), "T=bf16, form 2");
  b.dtype_bound = 1;
  EXPECT_EQ(TunedCall(*contract, 0, b), "T=bf16, form 1");
}

// Libraries are loaded from the folder that the file lies in.
TEST_F(TunedFile, ItsFoldersAreTheUsersAloneWhateverTheUmask) {
  const mode_t mask = ::umask(0);
  WriteTuned((folder_ / "a" / "b" / "tuned.txt").string(), Choices());
  ::umask(mask);
  for (const fs::path& made : {folder_ / "a", folder_ / "a" / "b"}) {
    EXPECT_EQ(fs::status(made).permissions(), fs::perms::owner_all) << made;
  }
}

}  // namespace
}  // namespace anyop::tuned_test
