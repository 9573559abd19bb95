// SPDX-License-Identifier: Apache-2.0
// Test files are compiled joined, as reading headers is most of their cost; each is still run by a
// name of its own, a link to the program that it is in.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace anyop::optest {

// The tests of `source`, a path from the project's folder, run as `name`.
struct TestFile {
  std::string_view name, source;
};

// The files that this program was joined from. A program that never says so has one.
struct JoinedFiles {
  explicit JoinedFiles(std::span<const TestFile> files);
};

// The filter that leaves only the tests of the file that the program was called as, of those that
// `asked` leaves; `asked` where its name is none of the files', as that of the joined program.
// Throws std::runtime_error where the file has no tests, or where its tests can't be told from
// those of another.
std::string FilterOf(std::string_view program, std::span<const TestFile> files,
                     const std::string& asked);

// Sets --gtest_filter so for the files that this program was joined from. After InitGoogleTest.
void ChooseTests(std::string_view program);

}  // namespace anyop::optest
