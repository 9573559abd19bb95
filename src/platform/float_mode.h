// SPDX-License-Identifier: Apache-2.0
// How floats are computed with on a thread: how they are rounded, whether subnormal ones count as
// zero, which exceptions trap. Every thread has a mode of its own, in the control register that the
// SIMD unit shares with scalar code. Hosts change it on their own threads and on those of their
// callers, and a thread inherits that of the one that starts it. Kernels run in the default mode,
// so that results depend neither on the host nor on the thread that computes them.
#pragma once
#include <cstdint>

namespace anyop {

#if defined(__x86_64__)
// MXCSR without the flags of exceptions that were met: they stay set once nearly any operation has
// rounded, and would make every mode look like another one. Writing a mode leaves them as they are.
inline constexpr std::uint64_t kDefaultFloatMode = 0x1f80, kMetExceptions = 0x3f;
inline std::uint64_t ReadFloatMode() { return __builtin_ia32_stmxcsr() & ~kMetExceptions; }
inline void WriteFloatMode(std::uint64_t mode) {
  const std::uint64_t met = __builtin_ia32_stmxcsr() & kMetExceptions;
  __builtin_ia32_ldmxcsr(std::uint32_t(mode | met));
}
#elif defined(__aarch64__)
// FPCR, which holds no flags of exceptions that were met.
inline constexpr std::uint64_t kDefaultFloatMode = 0;
inline std::uint64_t ReadFloatMode() {
  std::uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
inline void WriteFloatMode(std::uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
inline constexpr std::uint64_t kDefaultFloatMode = 0;
inline std::uint64_t ReadFloatMode() { return kDefaultFloatMode; }
inline void WriteFloatMode(std::uint64_t) {}
#endif

inline bool IsDefaultFloatMode() { return ReadFloatMode() == kDefaultFloatMode; }

// The default mode on this thread, while it lives; then the mode from before. Reading the mode
// takes about a nanosecond, writing it some 10: a call that finds the default mode needs none of
// this.
class DefaultFloatMode {
 public:
  // Whether functions of Python that kernels run have the caller's mode (CallersFloatMode): not on
  // the threads of a compiler, whose mode no caller chose.
  enum class Functions { kHaveTheCallers, kHaveTheDefault };
  explicit DefaultFloatMode(Functions functions = Functions::kHaveTheCallers);
  ~DefaultFloatMode();
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
  friend class CallersFloatMode;
  std::uint64_t callers_;
  DefaultFloatMode* const outer_;
};

// The mode of the thread as it was before the innermost DefaultFloatMode, for code of the caller's
// that a kernel runs: a function of Python. If that function changes the mode, the caller has the
// new mode afterwards.
class CallersFloatMode {
 public:
  CallersFloatMode();
  ~CallersFloatMode();
  CallersFloatMode(const CallersFloatMode&) = delete;
  CallersFloatMode& operator=(const CallersFloatMode&) = delete;

 private:
  DefaultFloatMode* const around_;
};

}  // namespace anyop
