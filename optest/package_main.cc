// SPDX-License-Identifier: Apache-2.0
// anyop-optest, the program that `anyop test` builds and runs on a package:
//   anyop-optest LIBRARY REFERENCES FACTS [--list] [--test=NAME] [--match=TEXT]... [--after=OPERATOR]
//                [flags]
// LIBRARY, REFERENCES and FACTS are files; the last two may be "". Runs the tests whose names are
// NAME or hold one of the texts; all without either. --after leaves out the tests of an operator
// and of those before it: one of them has ended the process. The flags are those of session.h.
// Lines that begin with "anyop-optest: " are for anyop.testing, which reads them; "lacks" names an
// operator without a reference, and so without tests.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "optest/failures.h"
#include "optest/package_tests.h"
#include "optest/running.h"
#include "optest/session.h"

namespace anyop::optest {
namespace {

bool has_failed;

struct Choice {
  bool is_list = false;
  std::string name, after;
  std::vector<std::string> parts;

  bool Takes(const std::string& test) const {
    if (test.substr(0, test.find('.')) <= after) return false;  // in alphabetical order
    const auto is_in = [&](const std::string& part) { return test.find(part) != test.npos; };
    return (name.empty() || test == name) && (parts.empty() || std::ranges::any_of(parts, is_in));
  }
};

// What the command line holds behind the three files. Throws std::invalid_argument.
Choice ReadChoice(int argc, char** argv) {
  Choice choice;
  for (int i = 4; i < argc; ++i) {
    const std::string flag = argv[i], name = flag.substr(0, flag.find('=') + 1);
    if (flag == "--list") {
      choice.is_list = true;
    } else if (name == "--test=") {
      choice.name = flag.substr(name.size());
    } else if (name == "--after=") {
      choice.after = flag.substr(name.size());
    } else if (name == "--match=") {
      choice.parts.push_back(flag.substr(name.size()));
    } else {
      throw std::invalid_argument("there is no flag " + flag);
    }
  }
  return choice;
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

// True if the test has passed.
bool Run(const PackageTest& test) {
  std::printf("anyop-optest: run %s\n", test.name.c_str());
  std::fflush(stdout);
  has_failed = false;
  try {
    test.check(*test.test);
  } catch (const std::exception& e) {
    Fail(std::string("an exception ended the test: ") + e.what());
  }
  std::printf("anyop-optest: %s %s\n", has_failed ? "FAILED" : "ok", test.name.c_str());
  std::fflush(stdout);
  return !has_failed;
}

int Main(int argc, char** argv) {
  ReadFlags(&argc, argv);
  if (argc < 4) throw std::invalid_argument("LIBRARY REFERENCES FACTS are missing");
  const Choice choice = ReadChoice(argc, argv);
  const std::string facts = *argv[3] ? ReadAll(argv[3]) : "";
  int failed = 0;
  ReportCrashes();
  for (const PackageTest& test : MakePackageTests({argv[1], argv[2], facts})) {
    if (!choice.Takes(test.name)) continue;
    if (choice.is_list) {
      std::printf("anyop-optest: has %s\n", test.name.c_str());
    } else {
      failed += !Run(test);
    }
  }
  if (choice.is_list) return 0;
  std::printf("anyop-optest: end\n");
  PrintTally();
  return failed ? 1 : 0;
}

}  // namespace

void Fail(const std::string& text) {
  has_failed = true;
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}
bool HasFailed() { return has_failed; }

}  // namespace anyop::optest

int main(int argc, char** argv) {
  try {
    return anyop::optest::Main(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}
