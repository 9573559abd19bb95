// SPDX-License-Identifier: Apache-2.0
// What fuzz tests share: how long they try, a seed that is printed, and what every error must be.
// The same tries each time, so that a check of the same tree ends alike; FUZZ_SEED=random tries
// others, FUZZ_SEED=<printed> the same again, in the same order. For hours:
// FUZZ_SEED=random FUZZ_SECONDS=36000 build/release/tests/graph_text_fuzz_test.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "anyop/error.h"

namespace anyop::fuzz {

using Random = std::mt19937_64;

// A loop of tries, each with random numbers of its own: while (Next()) ...
class Tries {
 public:
  // seconds: of CPU time, unless FUZZ_SECONDS says how many
  explicit Tries(double seconds) {
    if (const char* given = std::getenv("FUZZ_SECONDS")) seconds = std::atof(given);
    const char* given = std::getenv("FUZZ_SEED");
    const std::string_view seed = given ? given : "1";
    seed_ = seed == "random" ? std::random_device{}() : std::strtoull(seed.data(), nullptr, 10);
    end_ = Now() + seconds;
    std::printf("FUZZ_SEED=%llu\n", static_cast<unsigned long long>(seed_));
    std::fflush(stdout);
  }
  ~Tries() {
    alarm(0);
    std::printf("%llu tries\n", static_cast<unsigned long long>(tries_));
  }
  Tries(const Tries&) = delete;
  Tries& operator=(const Tries&) = delete;

  bool Next() {
    alarm(kLongestSeconds);  // a try that hangs ends the program
    random.seed(seed_ + ++tries_);
    return Now() < end_ && !::testing::Test::HasFailure();
  }
  std::uint64_t tries() const { return tries_; }

  Random random;

 private:
  static constexpr unsigned kLongestSeconds = 120;
  static double Now() { return double(std::clock()) / CLOCKS_PER_SEC; }

  std::uint64_t seed_ = 0, tries_ = 0;
  double end_ = 0;
};

inline std::size_t Below(Random& random, std::size_t n) { return n ? random() % n : 0; }
template <class T>
const T& OneOf(Random& random, const std::vector<T>& list) {
  return list[Below(random, list.size())];
}

// A number that sizes and indices are wrong by, or small.
inline std::int64_t OddInteger(Random& random) {
  constexpr std::int64_t kOdd[] = {
      0, 1, -1, 2, 3, 7, 64, 1ll << 31, 1ll << 32, 1ll << 40, INT64_MAX, INT64_MIN, INT64_MAX / 2};
  return kOdd[Below(random, std::size(kOdd))];
}

// Runs f: it returns, or throws an Error that blames the call, not anyop, and says who refuses:
// `names` begins the text. Any other exception fails the test.
inline bool IsAnswered(const std::function<void()>& f,
                       const std::function<bool(const std::string&)>& says_who) {
  try {
    f();
    return true;
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_GE(e.code, ANYOP_INVALID_ARGUMENT) << text;
    EXPECT_LT(e.code, ANYOP_INTERNAL) << text;
    EXPECT_TRUE(says_who(text)) << text;
  }
  return false;
}

// Text cut into words, numbers, quoted words, single other characters and blanks.
inline std::vector<std::string> Tokens(std::string_view text) {
  std::vector<std::string> tokens;
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    if (is_word(text[at])) {
      while (end < text.size() && (is_word(text[end]) || text[end] == '.')) ++end;
    } else if (text[at] == '"' || text[at] == '\'') {
      end = std::min(text.find(text[at], end), text.size() - 1) + 1;
    }
    tokens.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return tokens;
}

inline const std::vector<std::string>& OddNumbers() {
  static const std::vector<std::string> odd = {"0",
                                               "1",
                                               "-1",
                                               "2",
                                               "3",
                                               "7",
                                               "8",
                                               "64",
                                               "0.1",
                                               "-0.0",
                                               "1e300",
                                               "1e-400",
                                               "nan",
                                               "-inf",
                                               "2147483647",
                                               "2147483648",
                                               "4294967296",
                                               "4294967297",
                                               "1099511627776",
                                               "4611686018427387904",
                                               "9223372036854775807",
                                               "9223372036854775808",
                                               "-9223372036854775808",
                                               "18446744073709551617",
                                               "99999999999999999999999"};
  return odd;
}

// Changes up to four tokens: to another of the text, an odd number or one of `others`; or takes
// one out, or puts one in.
inline std::string Mutated(std::string_view text, Random& random,
                           const std::vector<std::string>& others) {
  std::vector<std::string> tokens = Tokens(text);
  for (std::size_t k = 1 + Below(random, 4); k > 0 && !tokens.empty(); --k) {
    const std::size_t at = Below(random, tokens.size());
    std::string& token = tokens[at];
    switch (Below(random, 6)) {
      case 0:
        token = OneOf(random, others);
        break;
      case 1:
        token = OneOf(random, OddNumbers());
        break;
      case 2:
        tokens.erase(tokens.begin() + std::ptrdiff_t(at));
        break;
      case 3:
        tokens.insert(tokens.begin() + std::ptrdiff_t(at), OneOf(random, others));
        break;
      case 4:
        token[Below(random, token.size())] = char(random());
        break;
      default:
        token = std::string(OneOf(random, tokens));
    }
  }
  std::string mutated;
  for (const std::string& token : tokens) mutated += token;
  return mutated;
}

// Takes lines out, doubles them, changes their places.
inline std::string LinesMoved(const std::string& text, Random& random) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    lines.push_back(text.substr(at, end - at));
    at = end;
  }
  for (std::size_t k = 1 + Below(random, 3); k > 0 && !lines.empty(); --k) {
    const std::size_t at = Below(random, lines.size()), to = Below(random, lines.size());
    switch (Below(random, 3)) {
      case 0:
        lines.erase(lines.begin() + std::ptrdiff_t(at));
        break;
      case 1:
        lines.insert(lines.begin() + std::ptrdiff_t(to), std::string(lines[at]));
        break;
      default:
        std::swap(lines[at], lines[to]);
    }
  }
  std::string moved;
  for (const std::string& line : lines) moved += line;
  return moved;
}

}  // namespace anyop::fuzz
