// SPDX-License-Identifier: Apache-2.0
// Streams, each with a thread of its own, and events.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>

#include "anyop/device.h"

namespace virtual_device {

struct LateError {
  std::uint64_t order;  // among all
  int code;
  std::string text;
  // Shared by all that have it, where it is told once: the first launch after that, or 0. Else
  // null.
  std::shared_ptr<std::atomic<std::uint64_t>> told;

  std::uint64_t ToldBefore() const { return told ? told->load() : 0; }
  // Who calls it tells it; false: somebody has told it already.
  bool Tell() const;
};

struct Counters {
  std::atomic<std::uint64_t> launches{0}, skipped{0}, copies{0}, waits{0};
};

class Stream;

// How often it was recorded, and how many of these have been reached. It carries the error that a
// stream had there: whoever waits for the event waits for results that are not there.
class Event {
 public:
  explicit Event(int of_device) : device(of_device) {}
  std::uint64_t Record();
  std::uint64_t Recorded();
  void Reach(std::uint64_t record, Stream* on = nullptr);
  // The error of what was waited for.
  std::optional<LateError> Wait(std::uint64_t record);
  bool IsComplete();
  // The error that a complete event carries; the stream of its record has then told it.
  std::optional<LateError> TakeLateError();
  // When the last record was reached; none if there was none, or it is yet to come.
  std::optional<std::chrono::steady_clock::time_point> When();

  const int device;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t recorded_ = 0, reached_ = 0;
  std::chrono::steady_clock::time_point when_;
  std::optional<LateError> late_;  // of the last record that was reached, on this stream:
  Stream* on_ = nullptr;
};

// A queue and the thread that works on it. It is never destroyed: another stream takes its place.
class Stream {
 public:
  Stream(int of_device, Counters* counters) : device(of_device), counters_(*counters) {}
  void Start();                      // its thread
  void Begin(std::uint64_t number);  // as the stream of this number, with delays of its own

  // `is_over_at_exit`: what touches memory of others, so that a process waits for it at its exit.
  void Push(std::function<void()> work, bool is_over_at_exit = true);
  // Of an event: it is over at once when its turn comes, and no work to wait for.
  void PushMark(std::function<void()> mark);
  bool IsIdle();  // all work is over
  void Launch(const anyop_launch& launch, std::shared_ptr<char[]> block);
  std::optional<LateError> TakeLateError();
  // Takes it away to be told by somebody else.
  std::optional<LateError> LeaveLateError();
  // That of this order alone, where it is still here.
  std::optional<LateError> DropLateError(std::uint64_t order);
  std::optional<LateError> SeenLateError();
  std::uint64_t LateErrorOrder();  // ~0: there is none
  std::uint64_t LastLaunch();      // that was put here
  // What it has waited for, behind that launch, has failed.
  void Inherit(const LateError& error, std::uint64_t behind);
  void Hold(int change);

  const int device;

 private:
  struct Work {
    std::function<void()> run;
    bool is_over_at_exit, is_mark = false;
  };
  void Loop();
  Work Next();
  void Delay();
  bool MayLaunch(std::uint64_t number);
  void ForgetTold();
  void SkipBefore(std::uint64_t launch);

  Counters& counters_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  int held_ = 0;
  std::size_t pending_ = 0;  // work that has not ended, marks not counted
  std::optional<LateError> late_;
  // Numbers of launches, which are counted over all streams.
  std::uint64_t last_launch_ = 0, failed_launch_ = 0, first_to_run_ = 0;
  std::mt19937_64 random_;
};

void SetSeed(std::uint64_t seed);
void SetDelay(std::uint32_t longest_us);
void SetFirstDelay(std::uint32_t longest_us);  // unless SetDelay was called before
// From now on no work begins; returns when what touches memory of others is over, or after a
// second.
void EndAll();
bool IsStreamThread();  // for the handler of faults

}  // namespace virtual_device
