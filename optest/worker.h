// SPDX-License-Identifier: Apache-2.0
// Threads that run parts of a test's parallel regions.
#pragma once
#include <semaphore.h>

#include <exception>
#include <functional>

namespace anyop::optest {

// One thread. It waits by semaphores alone: the thread sanitizer knows what they order, though this
// code is not built for it, and a signal handler may post them.
class Worker {
 public:
  // Never destroyed: its thread waits as long as the process lives.
  static Worker& Number(int i);

  // What the next Go() runs.
  void Give(std::function<void()> work) { work_ = std::move(work); }
  void Go() { sem_post(&start_); }
  void Await();
  // Waits so long at most; whether the work is done.
  bool AwaitFor(int milliseconds);
  // Throws what the work threw.
  void Rethrow();

 private:
  Worker();
  void Work();

  sem_t start_{}, done_{};
  std::function<void()> work_;
  std::exception_ptr error_;
};

}  // namespace anyop::optest
