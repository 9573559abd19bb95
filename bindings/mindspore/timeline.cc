// SPDX-License-Identifier: Apache-2.0
// Spans in the timeline of MindSpore's profiler for the CPU, which it has for its own kernels
// alone. Its class is found by the names of its functions: where another MindSpore has others,
// there are no spans. Built for MindSpore's C++ ABI, as these take its std::string.
#include <dlfcn.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "anyop/host.h"

namespace {

struct Profiler {
  std::shared_ptr<void> (*instance)() = nullptr;
  void (*begin)(void* self, std::string name, std::uint32_t process) = nullptr;
  void (*end)(void* self, std::string name) = nullptr;

  Profiler() {
    void* const cpu = dlopen("libmindspore_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
    if (!cpu) return;
    const std::string prefix = "_ZN9mindspore8profiler3cpu11CPUProfiler";
    const auto find = [&](const char* rest, auto& to) {
      to = reinterpret_cast<std::decay_t<decltype(to)>>(dlsym(cpu, (prefix + rest).c_str()));
    };
    find("11GetInstanceEv", instance);
    find("27OpDataProducerBeginParallelESsj", begin);
    find("25OpDataProducerEndParallelESs", end);
  }
  bool is_known() const { return instance && begin && end; }
};

// MindSpore is loaded when this is first asked for, and stays.
const Profiler& TheProfiler() {
  static const Profiler profiler;
  return profiler;
}

}  // namespace

extern "C" {

// Whether this MindSpore takes spans.
ANYOP_EXPORT int AnyopSpanIsKnown() { return TheProfiler().is_known(); }
// Of spans of one name that overlap, on two threads, only the number is right.
ANYOP_EXPORT void AnyopSpanBegin(const char* name) {
  const Profiler& p = TheProfiler();
  if (p.is_known()) p.begin(p.instance().get(), name, std::uint32_t(getpid()));
}
ANYOP_EXPORT void AnyopSpanEnd(const char* name) {
  const Profiler& p = TheProfiler();
  if (p.is_known()) p.end(p.instance().get(), name);
}

}  // extern "C"
