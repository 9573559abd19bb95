// SPDX-License-Identifier: Apache-2.0
#include "stream.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "settings.h"
#include "trace.h"

namespace virtual_device {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<std::uint64_t> g_seed{1}, g_order{0}, g_launches{0};
constexpr std::uint32_t kNotSaid = ~0u;
std::atomic<std::uint32_t> g_delay_us{kNotSaid};
std::atomic<bool> g_is_ending{false};
std::atomic<int> g_running{0};
// The threads of streams, none of which ends. A list, as the handler of faults reads it: variables
// of a thread may allocate there, and those that do not are of memory that few libraries can have.
struct StreamThread {
  pthread_t thread;
  StreamThread* next;
};
std::atomic<StreamThread*> g_threads{nullptr};

// The host's threads are those that Ctrl-C and timers are for.
void BlockSignals() {
  sigset_t all;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) {
    sigdelset(&all, fault);
  }
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

bool LateError::Tell() const {
  std::uint64_t nobody = 0;
  return !told || told->compare_exchange_strong(nobody, g_launches + 1);
}

std::uint64_t Event::Record() {
  const std::lock_guard lock(mutex_);
  return ++recorded_;
}

std::uint64_t Event::Recorded() {
  const std::lock_guard lock(mutex_);
  return recorded_;
}

// Two streams that record one event may come in either order.
void Event::Reach(std::uint64_t record, Stream* on) {
  std::optional<LateError> late;
  if (on) late = on->SeenLateError();
  const std::lock_guard lock(mutex_);
  if (record <= reached_) return;
  reached_ = record, when_ = Clock::now();
  late_ = std::move(late), on_ = on;
  changed_.notify_all();
}

std::optional<LateError> Event::Wait(std::uint64_t record) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return reached_ >= record; });
  return late_;
}

std::optional<LateError> Event::TakeLateError() {
  const std::lock_guard lock(mutex_);
  if (reached_ < recorded_ || !late_) return std::nullopt;
  const std::optional<LateError> late = late_;
  if (!late->told) late_.reset();  // else who waits for it later must know that it was told
  const std::optional<LateError> kept = on_->DropLateError(late->order);
  if (!late->Tell()) return std::nullopt;
  return kept ? kept : late;
}

bool Event::IsComplete() {
  const std::lock_guard lock(mutex_);
  return reached_ >= recorded_;
}

std::optional<Clock::time_point> Event::When() {
  const std::lock_guard lock(mutex_);
  if (recorded_ == 0 || reached_ < recorded_) return std::nullopt;
  return when_;
}

void Stream::Start() {
  std::thread([this] { Loop(); }).detach();
}

void Stream::Begin(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  random_.seed(g_seed * 1000003 + number);
}

void Stream::Push(std::function<void()> work, bool is_over_at_exit) {
  const std::lock_guard lock(mutex_);
  queue_.push_back({std::move(work), is_over_at_exit});
  ++pending_;
  changed_.notify_one();
}

void Stream::PushMark(std::function<void()> mark) {
  const std::lock_guard lock(mutex_);
  queue_.push_back({std::move(mark), false, true});
  changed_.notify_one();
}

bool Stream::IsIdle() {
  const std::lock_guard lock(mutex_);
  return pending_ == 0;
}

void Stream::Launch(const anyop_launch& launch, std::shared_ptr<char[]> block) {
  const std::lock_guard lock(mutex_);
  last_launch_ = ++g_launches;
  auto work = [this, block = std::move(block), task = launch.task, number = last_launch_] {
    if (!MayLaunch(number)) {
      task(block.get() + 8, nullptr, 0);
      return;
    }
    char message[512] = "";
    const int code = task(block.get() + 8, message, sizeof message);
    ++counters_.launches;
    if (code == ANYOP_OK) return;
    message[sizeof message - 1] = '\0';
    const std::lock_guard failed(mutex_);
    late_ = {++g_order, code, message, nullptr};
    if (TheSettings().tells_errors_once) late_->told = std::make_shared<std::atomic<uint64_t>>(0);
    failed_launch_ = number;
  };
  queue_.push_back({std::move(work), true});
  ++pending_;
  changed_.notify_one();
}

// A device may skip what was put on a stream before its error was taken. This one always does.
bool Stream::MayLaunch(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  ForgetTold();
  const bool may = !late_ && number >= first_to_run_;
  if (!may) ++counters_.skipped;
  return may;
}

// Somebody else has told it. What was put here before that is skipped still.
void Stream::ForgetTold() {
  if (!late_ || late_->ToldBefore() == 0) return;
  SkipBefore(late_->ToldBefore());
  late_.reset();
}

void Stream::SkipBefore(std::uint64_t launch) { first_to_run_ = std::max(first_to_run_, launch); }

std::optional<LateError> Stream::TakeLateError() {
  std::optional<LateError> late = LeaveLateError();
  return late && late->Tell() ? late : std::nullopt;
}

std::optional<LateError> Stream::LeaveLateError() {
  const std::lock_guard lock(mutex_);
  ForgetTold();
  if (!late_) return std::nullopt;
  SkipBefore(g_launches + 1);
  if (late_->told && last_launch_ > failed_launch_) {
    late_->text += late_->text.ends_with('.') ? " " : ". ";
    late_->text += "What was put on the stream behind it has not run.";
  }
  return std::exchange(late_, std::nullopt);
}

std::optional<LateError> Stream::DropLateError(std::uint64_t order) {
  if (LateErrorOrder() != order) return std::nullopt;
  return LeaveLateError();
}

std::optional<LateError> Stream::SeenLateError() {
  const std::lock_guard lock(mutex_);
  ForgetTold();
  return late_;
}

void Stream::Inherit(const LateError& error, std::uint64_t behind) {
  const std::lock_guard lock(mutex_);
  ForgetTold();
  if (const std::uint64_t launch = error.ToldBefore()) return SkipBefore(launch);
  if (late_) return;
  late_ = error, failed_launch_ = behind;
}

std::uint64_t Stream::LastLaunch() {
  const std::lock_guard lock(mutex_);
  return last_launch_;
}

std::uint64_t Stream::LateErrorOrder() {
  const std::lock_guard lock(mutex_);
  ForgetTold();
  return late_ ? late_->order : ~std::uint64_t{0};
}

void Stream::Hold(int change) {
  const std::lock_guard lock(mutex_);
  held_ += change;
  changed_.notify_one();
}

Stream::Work Stream::Next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !queue_.empty() && held_ <= 0; });
  Work work = std::move(queue_.front());
  queue_.pop_front();
  return work;
}

// Half of the work begins at once, the other half late: what streams do to one another shows only
// where their delays differ.
void Stream::Delay() {
  const std::uint64_t longest = g_delay_us, drawn = random_();
  if (longest == 0 || drawn & 1) return;
  std::this_thread::sleep_for(std::chrono::microseconds((drawn >> 1) % (longest + 1)));
}

void Stream::Loop() {
  BlockSignals();
  StreamThread self{pthread_self(), g_threads};
  while (!g_threads.compare_exchange_weak(self.next, &self)) {
  }
  pthread_setname_np(pthread_self(), NameOf(device).c_str());
  for (;;) {
    Work work = Next();
    Delay();
    if (work.is_over_at_exit) ++g_running;
    if (!g_is_ending) work.run();
    if (work.is_over_at_exit) --g_running;
    if (!work.is_mark) {
      const std::lock_guard lock(mutex_);
      --pending_;
    }
    while (g_is_ending) pause();  // what the work holds may belong to what has ended already
  }
}

void SetSeed(std::uint64_t seed) { g_seed = seed; }
void SetDelay(std::uint32_t longest_us) { g_delay_us = longest_us; }
void SetFirstDelay(std::uint32_t longest_us) {
  std::uint32_t not_said = kNotSaid;
  g_delay_us.compare_exchange_strong(not_said, longest_us);
}
bool IsStreamThread() {
  for (const StreamThread* at = g_threads; at; at = at->next) {
    if (pthread_equal(at->thread, pthread_self())) return true;
  }
  return false;
}

void EndAll() {
  g_is_ending = true;
  const auto latest = Clock::now() + std::chrono::seconds(1);
  while (g_running > 0 && Clock::now() < latest) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace virtual_device
