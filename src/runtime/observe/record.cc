// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/record.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "platform/env.h"
#include "platform/log.h"
#include "runtime/observe/capsule.h"
#include "runtime/plan/plan.h"

namespace anyop {
namespace {

class Recorder {
 public:
  Recorder()
      : folder_(Environment("ANYOP_RECORD")),
        most_calls_(EnvironmentInteger("ANYOP_RECORD_CALLS")),
        each_(EnvironmentInteger("ANYOP_RECORD_EACH")),
        most_bytes_(EnvironmentInteger("ANYOP_RECORD_MIB") << 20) {}

  bool is_on() const { return !folder_.empty(); }

  void Add(const Operator& op, const Plan& plan, const anyop_value* frame) {
    const std::lock_guard lock(mutex_);
    // A plan's key has shapes, numbers and scope, and decides the kernel.
    if (seen_[{op.index, plan.hash}]++ >= each_) return;
    const std::string path = NewPath(op.name, CapsuleBytes(op, frame));
    if (path.empty()) return;
    const std::string error = SaveCapsule(path + ".safetensors", op, plan, frame);
    if (!error.empty()) StopLocked(error);
  }
  std::string New(std::string_view name, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    return NewPath(name, bytes);
  }
  void Stop(const std::string& error) {
    const std::lock_guard lock(mutex_);
    StopLocked(error);
  }
  std::int64_t each() const { return each_; }

 private:
  std::string NewPath(std::string_view name, std::int64_t bytes) {
    if (calls_ >= most_calls_ || bytes_ + bytes > most_bytes_) {
      if (!is_told_) {
        Log(2,
            "anyop run: the limits of the recording are reached; later calls are left out. Try "
            "--calls or --mib.");
      }
      is_told_ = true;
      return "";
    }
    ++calls_, bytes_ += bytes;
    char number[16];
    std::snprintf(number, sizeof number, "%05d", int(calls_));
    return folder_ + "/" + std::to_string(getpid()) + "-" + number + "-" + std::string(name);
  }
  void StopLocked(const std::string& error) {
    Log(2, ("anyop run: nothing more is recorded: " + error + ".").c_str());
    most_calls_ = 0;
    is_told_ = true;
  }

  const std::string folder_;
  std::mutex mutex_;
  std::int64_t most_calls_;
  const std::int64_t each_, most_bytes_;
  std::int64_t calls_ = 0, bytes_ = 0;
  bool is_told_ = false;  // that calls are left out
  std::map<std::pair<int, std::uint64_t>, std::int64_t> seen_;
};

// Never destroyed: other threads may still call at exit.
Recorder& TheRecorder() {
  static auto* recorder = new Recorder;
  return *recorder;
}

}  // namespace

bool IsRecording() {
  static const bool is_recording = TheRecorder().is_on();
  return is_recording;
}

void Record(const Operator& op, const Plan& plan, const anyop_value* frame) {
  TheRecorder().Add(op, plan, frame);
}

std::int64_t RecordsOfEach() { return TheRecorder().each(); }
std::string NewRecord(std::string_view name, std::int64_t bytes) {
  return TheRecorder().New(name, bytes);
}
void StopRecording(const std::string& error) { TheRecorder().Stop(error); }

}  // namespace anyop
