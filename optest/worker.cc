// SPDX-License-Identifier: Apache-2.0
#include "optest/worker.h"

#include <time.h>

#include <cerrno>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "optest/running.h"

namespace anyop::optest {
namespace {
void Wait(sem_t* semaphore) {
  while (sem_wait(semaphore) != 0) {  // a signal came between
  }
}
}  // namespace

Worker& Worker::Number(int i) {
  static auto& workers = *new std::vector<Worker*>;
  while (int(workers.size()) <= i) workers.push_back(new Worker);
  return *workers[std::size_t(i)];
}

Worker::Worker() {
  sem_init(&start_, 0, 0);
  sem_init(&done_, 0, 0);
  std::thread([this] { Work(); }).detach();
}

void Worker::Work() {
  UseStackForSignals();
  for (;;) {
    Wait(&start_);
    try {
      work_();
    } catch (...) {
      error_ = std::current_exception();
    }
    sem_post(&done_);
  }
}

void Worker::Await() { Wait(&done_); }

bool Worker::AwaitFor(int milliseconds) {
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  const std::int64_t ns = until.tv_nsec + std::int64_t(milliseconds) * 1000000;
  until.tv_sec += ns / 1000000000;
  until.tv_nsec = ns % 1000000000;
  int failed = 0;
  while ((failed = sem_timedwait(&done_, &until)) && errno == EINTR) {
  }
  return !failed;
}

void Worker::Rethrow() {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace anyop::optest
