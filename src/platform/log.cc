// SPDX-License-Identifier: Apache-2.0
#include "platform/log.h"

#include <atomic>
#include <cstdio>
#include <string>

#include "platform/env.h"

namespace anyop {
namespace {

void Print(int level, const char* text) {
  static constexpr const char* kNames[] = {"debug", "info", "warning"};
  std::fprintf(stderr, "anyop: %s: %s\n", kNames[level < 0 ? 0 : level > 2 ? 2 : level], text);
}

std::atomic<LogSink> sink{&Print};

int LeastLevel() {
  const std::string level = Environment("ANYOP_LOG");
  // 3 is above every message's level. `graph` is about graphs alone: all else is as by default.
  return level == "debug" ? 0 : level == "info" ? 1 : level == "none" ? 3 : 2;
}

}  // namespace

void Log(int level, const char* text) {
  static const int least = LeastLevel();
  const LogSink to = sink.load();
  if (to && level >= least) to(level, text);
}

bool LogsGraphs() {
  const std::string level = Environment("ANYOP_LOG");
  return level == "graph" || level == "debug";
}

void LogGraph(const std::string& text) {
  if (const LogSink to = sink.load()) to(0, text.c_str());
}

void SetLogSink(LogSink to) { sink = to; }

}  // namespace anyop
