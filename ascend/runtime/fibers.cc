// SPDX-License-Identifier: Apache-2.0
#include "fibers.h"

#include <sys/mman.h>

#include <exception>
#include <new>
#include <numeric>

#include "findings.h"

namespace anyop_ascend {

__thread Block* block __attribute__((tls_model("initial-exec"))) = nullptr;
thread_local Launched* launched = nullptr;
thread_local jmp_buf* block_end = nullptr;

namespace {

void Enter(unsigned low, unsigned high) {
  auto* entered = reinterpret_cast<FiberBlock*>(std::uintptr_t{high} << 32 | low);
  entered->was_ended = setjmp(entered->end) || !RunBody(launched->of, entered->place);
  entered->has_ended = true;
  ++launched->progress;
  swapcontext(&entered->context, &launched->scheduler);
}

}  // namespace

bool RunBody(const LaunchOf& launch, const std::uint32_t& place) {
  try {
    launch.body(launch.argument);
    return true;
  } catch (const EndOfBlock&) {
  } catch (...) {
    ReportException(place);
  }
  return false;
}

void ReportException(std::uint32_t place) {
  std::string what;
  try {
    throw;
  } catch (const std::exception& error) {
    what = Format(" (%s)", error.what());
  } catch (...) {
    what.clear();
  }
  if (place) what += " after " + Shown(place);
  Report("crash", SiteOf(place), "an exception leaves the kernel%s. A device has none",
         what.c_str());
}

unsigned char* MapStack() {
  void* whole = mmap(nullptr, kStackGuardBytes + kStackBytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (whole == MAP_FAILED) throw std::bad_alloc();
  auto* stack = static_cast<unsigned char*>(whole) + kStackGuardBytes;
  if (mprotect(stack, kStackBytes, PROT_READ | PROT_WRITE)) throw std::bad_alloc();
  return stack;
}

void Resume(FiberBlock& resumed) {
  block = &resumed;
  block_end = &resumed.end;
  if (!resumed.has_begun) {
    resumed.has_begun = true;
    getcontext(&resumed.context);
    resumed.context.uc_stack.ss_sp = resumed.stack;
    resumed.context.uc_stack.ss_size = kStackBytes;
    resumed.context.uc_link = nullptr;
    const auto address = reinterpret_cast<std::uintptr_t>(&resumed);
    makecontext(&resumed.context, reinterpret_cast<void (*)()>(&Enter), 2,
                static_cast<unsigned>(address & 0xFFFFFFFF), static_cast<unsigned>(address >> 32));
  }
  swapcontext(&launched->scheduler, &resumed.context);
  block = nullptr;
}

std::vector<std::uint32_t> OrderOf(std::uint32_t blocks, std::uint64_t seed) {
  std::vector<std::uint32_t> order(blocks);
  std::iota(order.begin(), order.end(), 0u);
  if (!seed) return order;
  std::uint64_t state = seed;
  for (std::uint32_t i = blocks; i > 1; --i) {  // splitmix64
    state += 0x9E3779B97F4A7C15ull;
    std::uint64_t bits = (state ^ state >> 30) * 0xBF58476D1CE4E5B9ull;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EBull;
    std::swap(order[i - 1], order[(bits ^ bits >> 31) % i]);
  }
  return order;
}

void EndBlock() {
  block->is_ending = true;
  throw EndOfBlock();
}
void End(const char* kind, const char* text, Site at) {
  Report(kind, at, "%s", text);
  EndBlock();
}
bool IsEnding() { return block && block->is_ending; }

}  // namespace anyop_ascend
