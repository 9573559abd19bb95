// SPDX-License-Identifier: Apache-2.0
// Messages of operators. A library never prints by itself: where they go is the program's choice.
#pragma once
#include <string>

namespace anyop {

// level: 0 debug, 1 info, 2 warning. Goes to the sink if ANYOP_LOG lets it.
void Log(int level, const char* text);

// Messages about what passes do to graphs. ANYOP_LOG=graph shows them without all other debug
// messages.
bool LogsGraphs();
void LogGraph(const std::string& text);

using LogSink = void (*)(int level, const char* text);
// Standard error at first. Null drops everything.
void SetLogSink(LogSink sink);

}  // namespace anyop
