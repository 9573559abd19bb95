// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/profile.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <vector>

#include "anyop/stream.h"
#include "platform/clock.h"
#include "platform/env.h"
#include "platform/json.h"
#include "platform/log.h"
#include "platform/threads.h"
#include "runtime/memory/copy.h"
#include "runtime/plan/explain.h"
#include "runtime/plan/frame.h"
#include "runtime/plan/make_plan.h"
#include "runtime/run/run.h"

namespace anyop {
namespace {

// Events beyond this are counted in their rows alone: a file of some 200 MB is what viewers open.
constexpr std::size_t kMostEvents = 2'000'000;

// Calls of one operator with the same shapes, numbers and kernel.
struct Row {
  std::string op, call, kernel, device;
  double bytes = 0, flops = 0;  // of one call
  int threads = 1;              // the most that it may use
  std::int64_t calls = 0, fallbacks = 0, copies = 0;
  std::int64_t kernel_ns = 0, host_ns = 0;
};

struct TimedCall {
  int row, thread;
  std::int64_t start_ns, total_ns, kernel_ns;
};

double MovedBytes(const Operator& op, const anyop_value* frame) {
  double bytes = 0;
  for (int i = 0; i < op.n_params + op.n_results; ++i) {
    const anyop_value& v = frame[i];
    if (v.tag == ANYOP_TENSOR) bytes += double(PackedBytes(*v.t));
    if (v.tag != ANYOP_TENSORS) continue;
    for (std::uint32_t k = 0; k < v.count; ++k) bytes += double(PackedBytes(*v.ts[k]));
  }
  return bytes;
}

// How many copies calls of this kernel have made so far, on this thread.
std::uint64_t CopiesOf(const Operator& op, const Plan& plan) {
  return CountersOfCall(op, plan).copies.value.load(std::memory_order_relaxed);
}

class Profile {
 public:
  Profile() : folder_(Environment("ANYOP_PROFILE")) {
    if (!is_on()) return;
    std::atexit([] { TheProfile().Write(); });
    // The child of a fork writes a profile of its own, without what its parent has timed.
    pthread_atfork(nullptr, nullptr, [] { TheProfile().Clear(); });
  }
  // Never destroyed: other threads may still call at exit.
  static Profile& TheProfile() {
    static auto* profile = new Profile;
    return *profile;
  }

  bool is_on() const { return !folder_.empty(); }

  int RowOf(const Operator& op, const Plan& plan, const anyop_value* frame) {
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = by_plan_.try_emplace({op.index, plan.hash}, int(rows_.size()));
    if (is_new) {
      Row& row = rows_.emplace_back();
      row.op = op.name;
      row.call = ShowCall(op, frame);
      row.kernel = KernelName(plan);
      row.device = Device(plan.device).name();
      row.bytes = ValueOf(op.bytes, plan, frame, MovedBytes(op, frame));
      row.flops = ValueOf(op.flops, plan, frame, 0);
      row.threads = plan.threads;
    }
    return found->second;
  }

  void Add(int row, bool is_fallback, std::uint64_t copies, std::int64_t inner_ns,
           TimedCall event) {
    const std::lock_guard lock(mutex_);
    if (std::size_t(row) >= rows_.size()) return;  // a call that began before a fork
    Row& r = rows_[std::size_t(row)];
    ++r.calls;
    r.fallbacks += is_fallback;
    r.copies += std::int64_t(copies);
    r.kernel_ns += event.kernel_ns;
    r.host_ns += event.total_ns - event.kernel_ns - inner_ns;
    if (events_.size() < kMostEvents) {
      events_.push_back(event);
    } else {
      ++left_out_;
    }
  }

  void AddHost(int row, std::int64_t ns) {
    const std::lock_guard lock(mutex_);
    if (std::size_t(row) < rows_.size()) rows_[std::size_t(row)].host_ns += ns;
  }

 private:
  void Clear() {
    rows_.clear(), events_.clear(), by_plan_.clear();
    left_out_ = 0;
  }

  void Write() {
    const std::lock_guard lock(mutex_);
    if (rows_.empty()) return;
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    const std::string path = folder_ + "/" + std::to_string(getpid()) + ".json";
    std::ofstream file(path);
    file << Head() << ", \"events\": [";
    const char* separator = "\n";
    for (const TimedCall& e : events_) {
      file << separator << '[' << e.row << ", " << e.thread << ", " << e.start_ns << ", "
           << e.total_ns << ", " << e.kernel_ns << ']';
      separator = ",\n";
    }
    file << "]}\n";
    if (!file.flush()) Log(2, ("anyop profile: " + path + " cannot be written.").c_str());
  }

  // All but the events and the last bracket.
  std::string Head() const {
    JsonWriter json;
    json.Begin('{').Number("format", 1).Number("process", getpid());
    json.Number("threads", NumThreads()).Number("left_out", left_out_).Key("rows").Begin('[');
    for (const Row& r : rows_) {
      json.Begin('{').Field("op", r.op).Field("call", r.call).Field("kernel", r.kernel);
      json.Field("device", r.device);
      json.Number("bytes", std::int64_t(r.bytes)).Number("flops", std::int64_t(r.flops));
      json.Number("threads", r.threads).Number("calls", r.calls);
      json.Number("fallbacks", r.fallbacks).Number("copies", r.copies);
      json.Number("kernel_ns", r.kernel_ns).Number("host_ns", r.host_ns).End('}');
    }
    return json.End(']').text();
  }

  const std::string folder_;
  std::mutex mutex_;
  std::vector<Row> rows_;
  std::vector<TimedCall> events_;
  std::map<std::pair<int, std::uint64_t>, int> by_plan_;
  std::int64_t left_out_ = 0;
};

constinit thread_local CallTimer* t_open = nullptr;
constinit thread_local HostTimer* t_host = nullptr;

}  // namespace

bool IsProfiling() {
  static const bool is_profiling = Profile::TheProfile().is_on();
  return is_profiling;
}

HostTimer::HostTimer() : outer_(t_host), start_ns_(NowNs()) { t_host = this; }
HostTimer::~HostTimer() {
  t_host = outer_;
  if (row_ < 0) return;
  const std::int64_t ns = before_ns_ + NowNs() - left_ns_;
  Profile::TheProfile().AddHost(row_, ns);
  if (t_open) t_open->AddInner(ns);
}

CallTimer::CallTimer(const Operator& op, const Plan& plan, const anyop_value* frame,
                     std::int64_t entered_ns)
    : outer_(t_open),
      op_(op),
      plan_(plan),
      row_(Profile::TheProfile().RowOf(op, plan, frame)),
      copies_(CopiesOf(op, plan)) {
  t_open = this;
  if (t_host && t_host->row_ < 0) {
    host_ = t_host;
    host_->row_ = row_;
    host_->before_ns_ = entered_ns - host_->start_ns_;
  }
  start_ns_ = NowNs();  // last, as left_ns_ below: what the profile does itself is not timed
}

CallTimer::~CallTimer() {
  const std::int64_t total = NowNs() - start_ns_;
  t_open = outer_;
  if (outer_) outer_->AddInner(total);
  Profile::TheProfile().Add(row_, plan_.is_fallback, CopiesOf(op_, plan_) - copies_, inner_ns_,
                            {row_, int(syscall(SYS_gettid)), start_ns_, total, kernel_ns_});
  if (host_) host_->left_ns_ = NowNs();
}

void CallTimer::AddInner(std::int64_t ns) {
  inner_ns_ += ns;
  if (is_in_kernel_) kernel_ns_ -= ns;  // the kernel is a function of Python, which makes calls
}

KernelTimer::KernelTimer() {
  if (!t_open) return;
  t_open->is_in_kernel_ = true;
  start_ns_ = NowNs();
}
KernelTimer::~KernelTimer() {
  if (!t_open) return;
  t_open->kernel_ns_ += NowNs() - start_ns_;
  t_open->is_in_kernel_ = false;
}

}  // namespace anyop
