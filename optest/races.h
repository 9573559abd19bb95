// SPDX-License-Identifier: Apache-2.0
// What the thread sanitizer says of a kernel, in the program of `anyop test --sanitize thread`.
#pragma once
#include <functional>
#include <string>

namespace anyop::optest {

// Whether the thread sanitizer is in this process.
bool HasThreadSanitizer();

// Runs `work` and returns the sanitizer's reports of it, as it writes them; "" if there are none.
// A pair of places in the code is reported once in a process.
std::string ReportsOf(const std::function<void()>& work);

// A sentence or two on the first of such reports: what races, in which lines, and what to do.
std::string DescribeRace(const std::string& reports);

}  // namespace anyop::optest
