// SPDX-License-Identifier: Apache-2.0
#include "optest/package_tests.h"

#include <algorithm>
#include <deque>
#include <map>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "anyop/stream.h"
#include "optest/checks.h"
#include "optest/races.h"
#include "runtime/run/call.h"

namespace anyop::optest {
namespace {

// An OpTest and the texts that it points to.
struct OwnedTest {
  std::string op;
  std::deque<std::string> texts;
  OpTest test;
  std::vector<std::string_view> special;  // the parameters that the package names
  std::string_view Keep(std::string text) { return texts.emplace_back(std::move(text)); }
};

std::string Trim(std::string_view s) {
  const std::size_t begin = s.find_first_not_of(" \t"), end = s.find_last_not_of(" \t");
  return begin == s.npos ? "" : std::string(s.substr(begin, end - begin + 1));
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(Trim(part));
  return parts;
}

double ToNumber(const std::string& text) {
  std::size_t used = 0;
  double number = 0;
  try {
    number = std::stod(text, &used);
  } catch (const std::exception&) {
    used = std::string::npos;
  }
  if (used != text.size()) throw std::invalid_argument("'" + text + "' is no number");
  return number;
}

// "relative(6, 2, d)"
Tolerance OneTolerance(const std::string& text) {
  const std::size_t open = text.find('('), close = text.rfind(')');
  const std::string name = Trim(text.substr(0, open));
  std::vector<std::string> words;
  if (open != text.npos) {
    if (close == text.npos || close < open) throw std::invalid_argument("a ')' is missing");
    words = Split(text.substr(open + 1, close - open - 1), ',');
  }
  const auto number = [&](std::size_t i, double other) {
    return i < words.size() ? ToNumber(words[i]) : other;
  };
  if (name == "exact" && words.empty()) return Exact();
  if (name == "elementwise" && words.size() <= 1) return Elementwise(number(0, 4));
  if (name == "sum" && words.size() == 1) return Sum(words[0]);
  for (const auto& [part, tolerance] :
       {std::pair("relative", &Relative), std::pair("conditioned", &Conditioned),
        std::pair("row", &OfRow)}) {
    if (name != part || words.empty() || words.size() > 3) continue;
    return tolerance(number(0, 0), number(1, 0), words.size() > 2 ? words[2] : "1");
  }
  throw std::invalid_argument("'" + text +
                              "' is no tolerance: exact, elementwise(ulps), sum(k), "
                              "relative(a, b, k), row(a, b, k) or conditioned(a, b, k)");
}

Tolerance ParseTolerance(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += (c == '(') - (c == ')');
    if (c == '+' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  Tolerance all = OneTolerance(Trim(parts[0]));
  for (std::size_t i = 1; i < parts.size(); ++i) all = all + OneTolerance(Trim(parts[i]));
  return all;
}

void TakeFact(OwnedTest& owned, const std::string& name, const std::string& value) {
  OpTest& test = owned.test;
  const std::vector<std::string> words = Split(value, ',');
  if (name == "tolerance") {
    test.tolerance = ParseTolerance(value);
  } else if (name == "sizes") {
    test.sizes.push_back(owned.Keep(value));
  } else if (name == "special") {
    owned.special.push_back(owned.Keep(value));
  } else if (name == "range" && words.size() == 3) {
    test.ranges[owned.Keep(words[0])] = {ToNumber(words[1]), ToNumber(words[2])};
  } else if (name == "values" && words.size() >= 2) {
    std::vector<double>& numbers = test.values[owned.Keep(words[0])];
    for (std::size_t i = 1; i < words.size(); ++i) numbers.push_back(ToNumber(words[i]));
  } else if (name == "row_invariant") {
    test.row_invariant = ToNumber(value) != 0;
  } else if (name == "row_variable") {
    test.row_variable = owned.Keep(value);
  } else if (name == "unsupported") {
    test.unsupported = owned.Keep(value);
  } else {
    throw std::invalid_argument("there is no fact '" + name + "'");
  }
}

// A package's operators meet extreme values in the parameters that its test names.
void LeaveOutOthers(OwnedTest& owned) {
  for (const Param& p : Find(owned.op)->contract->forms[0].params) {
    if (std::ranges::count(owned.special, p.name)) continue;
    owned.test.not_extreme.emplace(p.name, "the test does not name it");
  }
}

void AddTests(const OwnedTest& owned, const std::string& short_name,
              std::vector<PackageTest>* tests) {
  const struct {
    const char* name;
    void (*check)(const OpTest&);
    bool runs_on_host = false;  // and tests nothing of what does not
  } checks[] = {{"MatchesItsReference", CheckValues, true},
                {"TreatsSpecialValuesAsItsReference", CheckExtremeValues, true},
                {"GivesARowAloneTheBitsItHasInABatch", CheckRowInvariance, true},
                {"DoesNotDependOnThreads", CheckThreadInvariance, true},
                {"IsDispatched", CheckDispatch, true},
                {"TakesWhatItsSignaturePromises", CheckPromises, true},
                {"RefusesWrongCallsAndWritesNothing", CheckWrongCalls},
                {"RunsOnDevices", CheckDevices},
                {"HasTheGradientOfDifferences", CheckGradient}};
  for (const auto& c : checks) {
    if (c.runs_on_host && !RunsOnHost(*Find(owned.op))) continue;
    if (c.check == CheckExtremeValues && owned.special.empty()) continue;
    if (c.check == CheckRowInvariance && !owned.test.row_invariant) continue;
    if (c.check == CheckDevices && !RunsOnSomeDevice(*Find(owned.op))) continue;
    if (c.check == CheckGradient && !*Find(owned.op)->data->gradient) continue;
    tests->push_back({short_name + "." + c.name, &owned.test, c.check});
  }
}

}  // namespace

std::vector<PackageTest> MakePackageTests(const PackageTests& tests) {
  Load(tests.library);
  if (!tests.references.empty()) LoadReferences(tests.references);
  static auto& owned = *new std::map<std::string, OwnedTest>;
  for (const Operator* op : Operators()) {
    if (op->file != tests.library) continue;
    OwnedTest& one = owned[op->contract->name];
    one.op = op->name;
    one.test.op = one.op;
    one.test.tolerance = Usual();
  }
  OwnedTest* current = nullptr;
  for (const std::string& line : Split(tests.facts, '\n')) {
    if (line.empty()) continue;
    const std::size_t equals = line.find('=');
    if (equals == line.npos) throw std::invalid_argument("'" + line + "' is no fact");
    const std::string name = Trim(line.substr(0, equals)), value = Trim(line.substr(equals + 1));
    if (name == "op") {
      const auto found = owned.find(value);
      if (found == owned.end()) {
        throw std::invalid_argument("the library has no operator '" + value + "'");
      }
      current = &found->second;
    } else if (current) {
      TakeFact(*current, name, value);
    }
  }
  std::vector<PackageTest> made;
  for (auto& [name, test] : owned) {
    LeaveOutOthers(test);
    if (HasThreadSanitizer()) {
      made.push_back({name + ".HasNoRaces", &test.test, CheckRaces});
      continue;
    }
    const Operator& op = *Find(test.op);
    if (!FindReference(op) && op.compositions.empty()) {
      std::printf("anyop-optest: lacks %s\n", name.c_str());
      continue;
    }
    AddTests(test, name, &made);
  }
  return made;
}

}  // namespace anyop::optest
