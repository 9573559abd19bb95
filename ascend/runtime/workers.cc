// SPDX-License-Identifier: Apache-2.0
#include "workers.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace anyop_ascend {
namespace {

struct Task {
  const std::function<bool(std::uint32_t)>* run;
  std::atomic<std::uint32_t> next;
  std::uint32_t end;
  std::atomic<bool> goes_on{true};
  int helpers = 0;  // guarded by Workers::mutex

  void Work() {
    for (std::uint32_t n; goes_on && (n = next.fetch_add(1)) < end;)
      if (!(*run)(n)) goes_on = false;
  }
};

// One task at a time is shared; whoever comes meanwhile works alone.
struct Workers {
  std::mutex mutex;
  std::condition_variable begins, ends;
  Task* task = nullptr;
  std::uint64_t number = 0;  // of tasks so far

  Workers() {
    const unsigned count = std::min(std::thread::hardware_concurrency(), 16u);
    for (unsigned i = 1; i < count; ++i) std::thread([this] { Serve(); }).detach();
  }
  void Serve() {
    std::unique_lock lock(mutex);
    for (std::uint64_t seen = 0;;) {
      begins.wait(lock, [&] { return task && number != seen; });
      seen = number;
      Task& joined = *task;
      ++joined.helpers;
      lock.unlock();
      joined.Work();
      lock.lock();
      if (--joined.helpers == 0) ends.notify_all();
    }
  }
};
Workers& TheWorkers() {
  static auto* workers = new Workers;  // its threads last as long as the process
  return *workers;
}

}  // namespace

bool Share(std::uint32_t begin, std::uint32_t end, const std::function<bool(std::uint32_t)>& run) {
  Task task{.run = &run, .next = begin, .end = end};
  Workers& workers = TheWorkers();
  {
    const std::lock_guard lock(workers.mutex);
    if (!workers.task) {
      workers.task = &task;
      ++workers.number;
      workers.begins.notify_all();
    }
  }
  task.Work();
  std::unique_lock lock(workers.mutex);
  if (workers.task == &task) workers.task = nullptr;
  workers.ends.wait(lock, [&] { return task.helpers == 0; });
  return task.goes_on;
}

}  // namespace anyop_ascend
