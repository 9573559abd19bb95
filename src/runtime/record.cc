// SPDX-License-Identifier: Apache-2.0
#include "runtime/record.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "platform/env.h"
#include "runtime/capsule.h"
#include "runtime/log.h"
#include "runtime/plan.h"

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
    if (seen_[{op.index, plan.hash}]++ >= each_) return;
    const std::int64_t bytes = CapsuleBytes(op, frame);
    if (calls_ >= most_calls_ || bytes_ + bytes > most_bytes_) return LeaveOut();
    char number[16];
    std::snprintf(number, sizeof number, "%05d", int(calls_ + 1));
    const std::string path =
        folder_ + "/" + std::to_string(getpid()) + "-" + number + "-" + op.name + ".safetensors";
    const std::string error = SaveCapsule(path, op, plan, frame);
    if (!error.empty()) return Stop(error);
    ++calls_, bytes_ += bytes;
  }

 private:
  void LeaveOut() {
    if (left_out_++ == 0) {
      Log(2,
          "anyop run: the limits of the recording are reached; later calls are left out. Try "
          "--calls or --mib.");
    }
  }
  void Stop(const std::string& error) {
    if (calls_ >= 0) Log(2, ("anyop run: nothing more is recorded: " + error + ".").c_str());
    calls_ = most_calls_ = 0;
    left_out_ = 1;
  }

  const std::string folder_;
  std::mutex mutex_;
  std::int64_t most_calls_;
  const std::int64_t each_, most_bytes_;
  std::int64_t calls_ = 0, bytes_ = 0, left_out_ = 0;
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

}  // namespace anyop
