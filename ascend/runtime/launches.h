// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mutex>
#include <string>

#include "anyop_ascend/core.h"

namespace anyop_ascend {

// Both run a launch and return whether every block came to its end.
bool LaunchChecked(const LaunchOf& launch);
bool LaunchFast(const LaunchOf& launch);
// Held by who declares memory and looks at findings, from the first to the last.
std::mutex& Checking();
// 1, with the text for anyop_ascend_error.
int Fail(std::string text);
// Copies that are rounded up to 32 bytes read past the end of an argument: without checks the page
// behind it can be read, as the device's allocator lets them.
void OpenPagesBehind(bool open);

// The device whose streams launches of host functions go to. 0, or 1 and why.
int UseDevice(const char* library, std::string* why);
int Synchronize(void* stream, std::string* why);

}  // namespace anyop_ascend
