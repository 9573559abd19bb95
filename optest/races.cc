// SPDX-License-Identifier: Apache-2.0
#include "optest/races.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "optest/region.h"

// The sanitizer's own interface. Without its library in the process these are null.
[[gnu::weak]] void* CurrentTsanReport() asm("__tsan_get_current_report");
[[gnu::weak]] void SetReportFile(void* descriptor) asm("__sanitizer_set_report_fd");

#ifdef ANYOP_FINDS_RACES
namespace {
using FetchAddFunction = std::int64_t(volatile std::int64_t*, std::int64_t, int);
auto* const g_fetch_add =
    reinterpret_cast<FetchAddFunction*>(dlsym(RTLD_NEXT, "__tsan_atomic64_fetch_add"));
}  // namespace

// In front of the sanitizer's own, by which kernels call: ctx.ParallelFor hands out parts with it.
// It jumps there, so that reports have the line of the kernel.
std::int64_t FetchAdd(volatile std::int64_t* to, std::int64_t n,
                      int order) asm("__tsan_atomic64_fetch_add");
[[gnu::optimize("optimize-sibling-calls")]] std::int64_t FetchAdd(volatile std::int64_t* to,
                                                                  std::int64_t n, int order) {
  anyop::optest::BeforeClaim();
  return g_fetch_add(to, n, order);
}
#endif

namespace anyop::optest {
namespace {

void WriteReportsTo(std::intptr_t descriptor) {
  SetReportFile(reinterpret_cast<void*>(descriptor));  // NOLINT: a number that it keeps as pointer
}

// One side of a race: "writes 4 bytes in /NAME/scale.cc:23".
struct RacingAccess {
  std::string what, place;
};

// "    #1 Run(int) /NAME/scale.cc:23 (my_ops.so+0x11f0)": file and line. "" where the sanitizer
// knows none or stands there itself, as in memcpy.
std::string PlaceOf(std::string frame) {
  frame.resize(std::min(frame.find(" (BuildId"), frame.size()));
  const std::size_t begin = frame.find(" /"), end = frame.rfind(" (");
  if (begin == frame.npos || end == frame.npos || end < begin) return "";
  if (frame.find("tsan", end) != frame.npos) return "";
  return frame.substr(begin + 1, end - begin - 1);
}

// "  Previous atomic write of size 4 at 0x7b04 by thread T1:": "writes 4 bytes"; "" for other
// lines.
std::string AccessOf(const std::string& line) {
  const std::size_t size = line.find(" of size ");
  if (size == line.npos || line.find(" by ") == line.npos) return "";
  const bool is_write = line.find("rite of size") != line.npos;
  const std::size_t digits = size + 9;
  const std::string bytes = line.substr(digits, line.find(' ', digits) - digits);
  return (is_write ? "writes " : "reads ") + bytes + (bytes == "1" ? " byte" : " bytes");
}

// Those of the first report. The place is the innermost line that is the author's: functions of
// headers of anyop, the compiler and the C++ library stand in a folder "include".
std::vector<RacingAccess> AccessesOf(const std::string& reports) {
  std::vector<RacingAccess> accesses;
  bool is_chosen = false, is_stack = false;
  std::istringstream lines(reports);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("SUMMARY")) break;
    const bool is_frame = line.starts_with("    #");
    if (const std::string what = AccessOf(line); !is_frame && !what.empty()) {
      accesses.push_back({what, ""});
      is_chosen = false;
      is_stack = true;
    } else if (is_frame && is_stack && !is_chosen) {
      const std::string place = PlaceOf(line);
      is_chosen = !place.empty() && place.find("/include/") == place.npos;
      if (is_chosen || accesses.back().place.empty()) accesses.back().place = place;
    } else if (!is_frame) {
      is_stack = false;
    }
  }
  return accesses;
}

}  // namespace

bool HasThreadSanitizer() { return CurrentTsanReport && SetReportFile; }

std::string ReportsOf(const std::function<void()>& work) {
  static const int file = memfd_create("races", MFD_CLOEXEC);
  if (file < 0) throw std::runtime_error("there is no memory for reports of races");
  WriteReportsTo(file);
  try {
    work();
  } catch (...) {
    WriteReportsTo(STDERR_FILENO);
    throw;
  }
  WriteReportsTo(STDERR_FILENO);
  std::string text(std::size_t(lseek(file, 0, SEEK_END)), ' ');
  const ssize_t got = pread(file, text.data(), text.size(), 0);
  text.resize(got < 0 ? 0 : std::size_t(got));
  if (ftruncate(file, 0) == 0) lseek(file, 0, SEEK_SET);
  return text;
}

std::string DescribeRace(const std::string& reports) {
  const std::vector<RacingAccess> accesses = AccessesOf(reports);
  if (accesses.size() < 2) return "the thread sanitizer reports:\n" + reports;
  const auto place = [](const RacingAccess& access) {
    return access.place.empty() ? "" : " in " + access.place;
  };
  return "two parts of a parallel region race: one " + accesses[0].what + place(accesses[0]) +
         ", and another one, which may run at the same time, " + accesses[1].what +
         " of the same memory" + place(accesses[1]) +
         ". Give each its own scratch, by the slot that f(begin, end, slot) of ctx.ParallelFor "
         "gets.";
}

}  // namespace anyop::optest
