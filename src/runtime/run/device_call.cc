// SPDX-License-Identifier: Apache-2.0
#include "runtime/run/device_call.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "anyop/tensor.h"
#include "platform/error.h"
#include "platform/float_mode.h"
#include "platform/log.h"
#include "runtime/memory/copy.h"
#include "runtime/memory/overlap.h"
#include "runtime/observe/check_mode.h"
#include "runtime/plan/frame.h"
#include "runtime/plan/key.h"
#include "runtime/plan/make_plan.h"
#include "runtime/run/call.h"
#include "runtime/run/device_copy.h"
#include "runtime/run/index_check.h"
#include "runtime/run/packed_call.h"
#include "runtime/run/run.h"
#include "signature/contract.h"

namespace anyop {
namespace {

// A text that is never freed, because a late error may need it at any time (anyop_index_check).
// There are as many as index parameters and bounds.
const char* Forever(const std::string& text) {
  static auto& mutex = *new std::mutex;
  static auto& texts = *new std::set<std::string>;  // whose nodes stay where they are
  const std::lock_guard lock(mutex);
  return texts.insert(text).first->c_str();
}

// Copies of a frame's tensors in the host's memory, contiguous.
class FrameOnHost {
 public:
  FrameOnHost(const DeviceTarget& target, int n) : target_(target), n_(n) {}
  // After a failure copies may still be on their way to or from this memory. If the device cannot
  // say that they are over, the memory is never freed.
  ~FrameOnHost() {
    if (is_pending_ && !target_.Settle()) new std::deque<Item>(std::move(items_));
  }
  FrameOnHost(const FrameOnHost&) = delete;
  FrameOnHost& operator=(const FrameOnHost&) = delete;

  // Copies parameters from the device, with one wait for all; results get memory alone. Tensors
  // that are not in `which` have a shape and no data. Planned ones are on the host already.
  void Fill(const Operator& op, const Plan& plan, const anyop_value* frame,
            std::uint64_t which = ~std::uint64_t{0}) {
    std::memcpy(values, frame, sizeof(anyop_value) * std::size_t(n_));
    ReplaceTensors(values, n_, &lists_, [&](const DLTensor& t, int i) -> const DLTensor* {
      const bool is_param = i < op.n_params;
      if (is_param && op.planned >> i & 1) return nullptr;
      return which >> i & 1 ? Copy(t, is_param, IsWritten(op, plan, i)) : WithoutData(t);
    });
    if (!is_pending_) return;
    target_.Wait();
    is_pending_ = false;
  }
  void BringBack() {
    is_pending_ = true;
    for (const Item& item : items_) {
      if (item.is_written) CopyFromHost(item.tensor.data, *item.from);
    }
    is_pending_ = false;
  }
  int count() const { return int(items_.size()); }

  anyop_value values[kMaxFrame];

 private:
  struct Item {
    const DLTensor* from;
    DLTensor tensor;
    bool is_written;
    std::vector<std::uint64_t> memory;
  };

  // One copy of one tensor: a result may be an argument's very memory. Another view of that memory,
  // or one of another dtype, is another tensor.
  const DLTensor* Copy(const DLTensor& from, bool is_read, bool is_written) {
    for (Item& known : items_) {
      if (!PackedBytes(from) || !IsSameMemory(*known.from, from)) continue;
      if (known.from->dtype.code != from.dtype.code) continue;
      known.is_written |= is_written;
      return &known.tensor;
    }
    Item& item = items_.emplace_back(Item{&from, from, is_written, {}});
    item.memory.resize(std::size_t(PackedBytes(from)) / 8 + 1);
    item.tensor.data = item.memory.data();
    item.tensor.byte_offset = 0;
    item.tensor.strides = nullptr;
    item.tensor.device = Device().dl();
    if (!is_read || !PackedBytes(from)) return &item.tensor;
    is_pending_ = true;
    StartCopyToHost(target_, from, item.tensor.data);
    return &item.tensor;
  }
  const DLTensor* WithoutData(const DLTensor& from) {
    DLTensor& t = shapes_.emplace_back(from);
    t.data = nullptr;
    t.byte_offset = 0;
    t.device = Device().dl();
    return &t;
  }

  const DeviceTarget& target_;
  const int n_;
  bool is_pending_ = false;
  std::deque<Item> items_;
  std::deque<DLTensor> shapes_;
  TensorLists lists_;
};

thread_local bool is_part = false;

// What ctx->runtime of a kernel that launches itself points to: it begins as device.h says.
struct LaunchState {
  anyop_device_run seen;
  RunState state;
};

// parallel_for and set_error for a kernel that launches itself: those of the host's kernels take
// ctx->runtime for a RunState.
void RunInline(const anyop_context*, std::int64_t n, std::int64_t,
               void (*fn)(void*, std::int64_t, std::int64_t), void* arg) {
  if (n > 0) fn(arg, 0, n);
}
int SetError(const anyop_context* c, int code, const char* text) {
  std::string*& error = static_cast<LaunchState*>(c->runtime)->state.error;
  delete error;
  error = new std::string(text);
  return code;
}

void TellUnwatched(const DeviceTarget& target) {
  static std::atomic<bool> is_told{false};
  if (is_told.exchange(true)) return;
  Log(2, ("check mode does not watch kernels that " + target.kind.NameOf(target.number) +
          " runs itself: their memory is not the host's.")
             .c_str());
}

// Whether the kernel is the host's code, which the device runs. On a device without `activate` no
// kernel starts its work itself: `submit` runs them all.
bool IsTask(const Operator& op, const Plan& plan) {
  if (plan.kernel < 0) return false;
  const OperatorKernel& k = op.kernels[std::size_t(plan.kernel)];
  const anyop_device& table = plan.device_kind->table;
  return table.submit && (k.is_for_host || !table.activate);
}

// The tensors on the device whose data a call's checks read, by bit.
struct CheckedData {
  std::uint64_t indices = 0, own = 0;  // by the operator's .check
};
CheckedData FindCheckedData(const Operator& op, const Plan& plan, const anyop_value* frame) {
  CheckedData found;
  const auto is_there = [&](int i) {
    const bool is_tensor = frame[i].tag == ANYOP_TENSOR || frame[i].tag == ANYOP_TENSORS;
    return is_tensor && !(op.planned >> i & 1);
  };
  for (const IndexCheck& c : plan.index_checks) {
    if (is_there(c.param)) found.indices |= std::uint64_t{1} << c.param;
  }
  for (int i = 0; i < op.n_params; ++i) {
    if (is_there(i)) found.own |= op.check_reads & std::uint64_t{1} << i;
  }
  return found;
}

enum class CheckedWhere { kNowhere, kInTask, kOnDevice, kOnHost };
CheckedWhere WhereChecked(const Operator& op, const Plan& plan, const CheckedData& data) {
  if (plan.data_checks == DataChecks::kTrusted || !(data.indices | data.own)) {
    return CheckedWhere::kNowhere;
  }
  if (plan.data_checks == DataChecks::kOnDevice && !plan.is_empty) {
    if (IsTask(op, plan)) return CheckedWhere::kInTask;
    // A composition's calls check the indices that they follow. What the operator's own rules
    // refuse beyond that harms no memory, so that it may be told late.
    const bool is_composition = plan.kernel < 0;
    const anyop_device& table = plan.device_kind->table;
    if (is_composition && table.submit) return CheckedWhere::kInTask;
    // A kernel that does not stop would follow the bad indices before anybody hears of them.
    const bool can_stop = (is_composition || plan.stops_on_failed_check) && !data.own;
    if (can_stop && table.check_indices && table.failed) return CheckedWhere::kOnDevice;
  }
  return CheckedWhere::kOnHost;
}

class DeviceRun {
 public:
  DeviceRun(Operator& op, Plan& plan, const anyop_value* frame, KernelRunner watched)
      : op_(op),
        plan_(plan),
        given_(frame),
        checked_(watched && IsChecking() ? watched : nullptr),
        target_(plan.device),
        counters_(DeviceCountersOf(op, plan)),
        data_(FindCheckedData(op, plan, frame)) {}

  // All that can be refused without the stream comes before anything is put on it.
  void Run() {
    if (!is_part) RaiseLate(target_.kind, target_.number, target_.stream);
    std::memcpy(frame_, given_, sizeof frame_[0] * std::size_t(n_values()));
    if (IsTask(op_, plan_)) CheckPlannedBytes(op_, frame_);
    PackPlanned();
    CheckOnHostAlone();
    // A call that computes nothing has its indices looked at all the same, as on the host.
    if (plan_.is_empty) return (void)CheckData();
    if (plan_.runs_on_host) return RunOnHost();
    const std::uint64_t copies = CountCopies();
    counters_.copies.Add(copies);
    if (checked_ && IsTask(op_, plan_)) return RunChecked();
    if (checked_ && op_.data->check_data) LookAtData();
    if (copies) MakeCopies();
    const PackedChecks checks = CheckData();
    if (plan_.kernel < 0) {
      counters_.calls.Add();
      if (plan_.is_fallback) counters_.fallbacks.Add();
      if (checks.indices || checks.own) {
        SubmitKernel(op_, plan_, frame_, checks, nullptr, target_.stream);
      }
      const PartsOfACall parts;
      RunComposition(op_, plan_, frame_);
    } else if (IsTask(op_, plan_)) {
      SubmitKernel(op_, plan_, frame_, checks, NewWorkspace(), target_.stream);
    } else {
      Launch();
    }
    for (const auto& [packed, to] : results_) UnpackOnDevice(packed, *to);
  }

 private:
  int n_values() const { return op_.n_params + op_.n_results; }
  // Copies planned tensors that no kernel takes as they lie, on the host.
  void PackPlanned() {
    for (int i = 0; i < op_.n_params; ++i) {
      if (!(op_.planned >> i & 1) || frame_[i].tag != ANYOP_TENSOR) continue;
      const DLTensor& from = *frame_[i].t;
      if (!IsCopied(plan_, i, from)) continue;
      if (plan_.is_strict) RefuseCopies(op_, plan_, given_);
      auto& memory = packed_.emplace_back(std::size_t(PackedBytes(from)) / 8 + 1);
      CopyToPacked(from, memory.data());
      DLTensor& copy = copies_.emplace_back(from);
      copy.data = memory.data();
      copy.byte_offset = 0;
      copy.strides = nullptr;
      frame_[i].t = &copy;
    }
  }
  // Makes the checks that need no data of the device, so that they fail at once: of indices that
  // the host has, and a .check that reads only shapes.
  void CheckOnHostAlone() const {
    for (const IndexCheck& c : plan_.index_checks) {
      const bool is_here = frame_[c.param].tag != ANYOP_TENSOR || op_.planned >> c.param & 1;
      if (is_here) CheckIndices(op_, plan_, {&c, 1}, frame_);
    }
    if (!data_.own) CallCheck(op_, plan_, frame_, op_.data->check);
  }

  void* NewWorkspace() {
    return plan_.workspace_bytes ? NewMemory(plan_.workspace_bytes) : nullptr;
  }
  void* NewMemory(std::uint64_t bytes) {
    memory_.emplace_back(target_.kind, target_.number, bytes);
    return memory_.back().data();
  }

  // How many tensors no kernel takes as they lie. Refuses what strict mode or the device cannot
  // copy here, while nothing of the call is on the stream.
  std::uint64_t CountCopies() const {
    std::uint64_t n = 0;
    for (int i = 0; i < n_values(); ++i) {
      if (op_.planned >> i & 1) continue;
      ForTensors(frame_[i], [&](const DLTensor& t, std::uint32_t k) {
        if (!IsCopied(plan_, i, t)) return;
        if (plan_.is_strict) RefuseCopies(op_, plan_, given_);
        const anyop_device& device = target_.table();
        if (!(i < op_.n_params ? CanPack(device) : CanUnpack(device))) RefuseGaps(i, k, t);
        ++n;
      });
    }
    return n;
  }
  // t: a tensor of value i, in a list the k-th.
  void RefuseGaps(int i, std::uint32_t k, const DLTensor& t) const {
    if (ClassOf(t) == kContiguous) return;  // misaligned alone, which is a plain copy
    RefuseStrides(target_, op_.Message(TensorName(op_, frame_, i, k)), t);
  }
  // Contiguous copies of what no kernel takes as it lies.
  void MakeCopies() {
    for (int i = 0; i < n_values(); ++i) {
      anyop_value& v = frame_[i];
      if (i >= op_.n_params) {
        if (v.tag == ANYOP_TENSOR && IsCopied(plan_, i, *v.t)) {
          const DLTensor* to = v.t;
          v.t = Room(*to);
          results_.emplace_back(v.t->data, to);
        }
        continue;
      }
      if (op_.planned >> i & 1) continue;
      if (v.tag == ANYOP_TENSOR && IsCopied(plan_, i, *v.t)) v.t = Copied(*v.t);
      if (v.tag != ANYOP_TENSORS) continue;
      auto& list = lists_.emplace_back(v.ts, v.ts + v.count);
      for (const DLTensor*& t : list) {
        if (IsCopied(plan_, i, *t)) t = Copied(*t);
      }
      v.ts = list.data();
    }
  }
  const DLTensor* Copied(const DLTensor& from) {
    const DLTensor* copy = Room(from);
    PackOnDevice(from, copy->data);
    return copy;
  }
  const DLTensor* Room(const DLTensor& like) {
    DLTensor& copy = copies_.emplace_back(like);
    copy.data = NewMemory(std::uint64_t(PackedBytes(like)));
    copy.byte_offset = 0;
    copy.strides = nullptr;
    return &copy;
  }

  // Looks at data, or puts what looks at them on the stream; returns what the task must do itself.
  PackedChecks CheckData() {
    switch (WhereChecked(op_, plan_, data_)) {
      case CheckedWhere::kNowhere:
        break;
      case CheckedWhere::kInTask:
        return {data_.indices != 0, data_.own != 0};
      case CheckedWhere::kOnDevice:
        for (const IndexCheck& c : plan_.index_checks) {
          if (data_.indices >> c.param & 1) CheckOnDevice(c);
        }
        break;
      case CheckedWhere::kOnHost: {
        FrameOnHost host(target_, op_.n_params);
        host.Fill(op_, plan_, frame_, data_.indices | data_.own);
        CheckIndices(op_, plan_, plan_.index_checks, host.values);
        if (data_.own) CallCheck(op_, plan_, host.values, op_.data->check);
      }
    }
    return {};
  }
  void CheckOnDevice(const IndexCheck& c) {
    const anyop_index_check check{sizeof check,
                                  c.is_offsets,
                                  c.limit,
                                  frame_[c.param].t,
                                  Forever(op_.Message(std::string(EntryName(op_, c.param)))),
                                  Forever(IndexBound(c, plan_, frame_))};
    target_.Check(target_.table().check_indices(target_.stream, &check));
  }

  // In check mode: .check_data, on the host, for a kernel that the device runs itself.
  void LookAtData() const {
    FrameOnHost host(target_, op_.n_params);
    host.Fill(op_, plan_, frame_);
    CallCheck(op_, plan_, host.values, op_.data->check_data);
  }
  // A kernel of the host is watched on the host, which can guard its memory.
  void RunChecked() {
    FrameOnHost host(target_, n_values());
    host.Fill(op_, plan_, frame_);
    CheckIndices(op_, plan_, plan_.index_checks, host.values);
    CallCheck(op_, plan_, host.values, op_.data->check);
    CallCheck(op_, plan_, host.values, op_.data->check_data);
    checked_(op_, plan_, host.values);
    host.BringBack();
  }

  void Launch() {
    if (checked_) TellUnwatched(target_);
    counters_.calls.Add();
    const anyop_device& table = target_.table();
    if (table.activate) target_.Check(table.activate(target_.number));
    static const anyop_host kLaunchServices = {sizeof(anyop_host), ANYOP_ABI_VERSION, &RunInline,
                                               &SetError, kServices.log};
    LaunchState launch{{sizeof(anyop_device_run), target_.number, nullptr}, RunState(plan_)};
    if (plan_.stops_on_failed_check && table.failed)
      launch.seen.failed = table.failed(target_.stream);
    anyop_context context = plan_.context;
    context.host = &kLaunchServices;
    context.stream = target_.stream;
    context.workspace = NewWorkspace();
    context.runtime = &launch;
    if (const int code = plan_.run(&context, frame_)) FailKernel(plan_, code, launch.state);
  }

  void RunOnHost() {
    for (int i = 0; i < n_values() && !CanUnpack(target_.table()); ++i) {
      if (!IsWritten(op_, plan_, i)) continue;
      ForTensors(frame_[i], [&](const DLTensor& t, std::uint32_t k) { RefuseGaps(i, k, t); });
    }
    FrameOnHost host(target_, n_values());
    host.Fill(op_, plan_, given_);  // not frame_: the call on the host has copies of its own
    counters_.fallbacks.Add();
    counters_.copies.Add(std::uint64_t(host.count()));
    const HeldPlan plan = GetPlan(op_, host.values);
    anyop::Run(op_, *plan, host.values);
    host.BringBack();
  }

  Operator& op_;
  Plan& plan_;
  const anyop_value* given_;
  const KernelRunner checked_;  // in check mode
  const DeviceTarget target_;
  KernelCounters& counters_;
  const CheckedData data_;
  anyop_value frame_[kMaxFrame];
  // Given back at the end, in the order of the stream: the device reuses it once the call's work is
  // over, which may be long after.
  std::deque<DeviceMemory> memory_;
  std::deque<DLTensor> copies_;
  std::deque<std::vector<std::uint64_t>> packed_;  // planned ones, on the host
  std::deque<std::vector<const DLTensor*>> lists_;
  std::vector<std::pair<void*, const DLTensor*>> results_;  // to be copied to where they belong
};

}  // namespace

PartsOfACall::PartsOfACall() : was_part_(std::exchange(is_part, true)) {}
PartsOfACall::~PartsOfACall() { is_part = was_part_; }

void RunOnDevice(Operator& op, Plan& plan, const anyop_value* frame, KernelRunner watched) {
  DeviceRun(op, plan, frame, watched).Run();
}

std::uint64_t CopiedForChecks(const Operator& op, const Plan& plan, const anyop_value* frame) {
  if (!plan.device_kind || plan.runs_on_host) return 0;
  const CheckedData data = FindCheckedData(op, plan, frame);
  return WhereChecked(op, plan, data) == CheckedWhere::kOnHost ? data.indices | data.own : 0;
}

}  // namespace anyop
