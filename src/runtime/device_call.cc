// SPDX-License-Identifier: Apache-2.0
#include "runtime/device_call.h"

#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "anyop/tensor.h"
#include "platform/error.h"
#include "platform/float_mode.h"
#include "runtime/call.h"
#include "runtime/copy.h"
#include "runtime/frame.h"
#include "runtime/index_check.h"
#include "runtime/key.h"
#include "runtime/make_plan.h"
#include "runtime/overlap.h"
#include "runtime/packed_call.h"
#include "runtime/run.h"
#include "signature/contract.h"

namespace anyop {
namespace {

constexpr int kMaxFrame = kMaxParams + kMaxResults;

char* DataOf(const DLTensor& t) { return static_cast<char*>(t.data) + t.byte_offset; }

// Texts that libraries keep: as many as there are index parameters and bounds.
const char* Forever(const std::string& text) {
  static auto& mutex = *new std::mutex;
  static auto& texts = *new std::set<std::string>;  // whose nodes stay where they are
  const std::lock_guard lock(mutex);
  return texts.insert(text).first->c_str();
}

// A stream of the device of a tensor, as calls of this thread see it.
struct Target {
  explicit Target(DLDevice device)
      : kind(DeviceKindOf(device)), number(device.device_id), stream(CurrentStream(kind, number)) {}
  const anyop_device& table() const { return kind.table; }
  void Check(int code) const { kind.Check(code, number); }
  void Wait() const {
    Check(table().synchronize(number, stream));
    RaiseLate(kind, number, stream);
  }

  const DeviceKind& kind;
  const int number;
  const anyop_stream stream;
};

[[noreturn]] void RefuseStrides(const Target& target, const DLTensor& t) {
  Fail(ANYOP_UNSUPPORTED, Show(t) + " on " + Device(t.device).name() + " has strides " +
                              ShowStrides(t) + ", but the library of " + target.kind.word +
                              " copies contiguous memory alone. Try a contiguous tensor.");
}

void Pack(const Target& to, const DLTensor& from, void* packed) {
  if (!PackedBytes(from)) return;
  if (ClassOf(from) == kContiguous) {
    to.Check(to.table().copy(to.stream, to.number, packed, to.number, DataOf(from),
                             std::uint64_t(PackedBytes(from))));
  } else if (to.table().pack) {
    to.Check(to.table().pack(to.stream, &from, packed));
  } else if (to.table().submit) {
    SubmitCopy(to.kind, to.number, from, packed, /*to_packed=*/true, to.stream);
  } else {
    RefuseStrides(to, from);
  }
}

void Unpack(const Target& at, const void* packed, const DLTensor& to) {
  if (!PackedBytes(to)) return;
  if (ClassOf(to) == kContiguous) {
    at.Check(at.table().copy(at.stream, at.number, DataOf(to), at.number, packed,
                             std::uint64_t(PackedBytes(to))));
  } else if (at.table().unpack) {
    at.Check(at.table().unpack(at.stream, packed, &to));
  } else if (at.table().submit) {
    SubmitCopy(at.kind, at.number, to, const_cast<void*>(packed), /*to_packed=*/false, at.stream);
  } else {
    RefuseStrides(at, to);
  }
}

// Puts a copy to the host's memory on the stream, without gaps; it is there after a wait.
void StartCopyToHost(const Target& from, const DLTensor& t, void* to) {
  const std::uint64_t bytes = std::uint64_t(PackedBytes(t));
  if (!bytes) return;
  std::optional<DeviceMemory> packed;  // given back in the order of the stream
  const void* source = DataOf(t);
  if (ClassOf(t) != kContiguous) {
    packed.emplace(from.kind, from.number, bytes);
    Pack(from, t, packed->data());
    source = packed->data();
  }
  from.Check(from.table().copy(from.stream, ANYOP_AT_HOST, to, from.number, source, bytes));
}

// Copies of a frame's tensors in the host's memory, contiguous.
class HostFrame {
 public:
  HostFrame(const Target& target, int n) : target_(target), n_(n) {}
  ~HostFrame() {  // after a failure: what is on its way here must not come any more
    if (is_pending_) target_.table().synchronize(target_.number, target_.stream);
  }
  HostFrame(const HostFrame&) = delete;
  HostFrame& operator=(const HostFrame&) = delete;

  // Parameters as they are there, after one wait; results are room alone. Of tensors that are not
  // in `which` the shape is all there is. Planned ones are here.
  void Fill(const Operator& op, const Plan& plan, const anyop_value* frame,
            std::uint64_t which = ~std::uint64_t{0}) {
    std::memcpy(values, frame, sizeof(anyop_value) * std::size_t(n_));
    for (int i = 0; i < n_; ++i) {
      const bool is_param = i < op.n_params;
      if (is_param && op.planned >> i & 1) continue;
      const auto copy = [&](const DLTensor& t) {
        return which >> i & 1 ? Copy(t, is_param, IsWritten(op, plan, i)) : WithoutData(t);
      };
      if (frame[i].tag == ANYOP_TENSOR) {
        values[i].t = copy(*frame[i].t);
      } else if (frame[i].tag == ANYOP_TENSORS) {
        auto& list = lists_.emplace_back();
        for (std::uint32_t k = 0; k < frame[i].count; ++k) list.push_back(copy(*frame[i].ts[k]));
        values[i].ts = list.data();
      }
    }
    if (!is_pending_) return;
    target_.Wait();
    is_pending_ = false;
  }
  void BringBack() const {
    for (const Item& item : items_) {
      if (item.is_written) CopyFromHost(item.tensor.data, *item.from);
    }
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

  // One copy of one tensor: a result may be an argument's very memory. Another view of it is
  // another tensor.
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

  const Target& target_;
  const int n_;
  bool is_pending_ = false;
  std::deque<Item> items_;
  std::deque<DLTensor> shapes_;
  std::deque<std::vector<const DLTensor*>> lists_;
};

// What a kernel that launches itself is given as the runtime's own.
struct LaunchState {
  anyop_device_run seen;
  RunState state;
};

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

// Whether the kernel is the host's code, which the device runs.
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
    // A kernel that does not stop would follow the bad indices before anybody hears of them.
    const anyop_device& table = plan.device_kind->table;
    const bool can_stop = plan.kernel >= 0 && plan.stops_on_failed_check && !data.own;
    if (can_stop && table.check_indices && table.failed) return CheckedWhere::kOnDevice;
  }
  // Each call of a composition looks at its indices itself.
  const bool is_ours = plan.kernel >= 0 || data.own || plan.is_empty;
  return is_ours ? CheckedWhere::kOnHost : CheckedWhere::kNowhere;
}

class DeviceRun {
 public:
  DeviceRun(Operator& op, Plan& plan, const anyop_value* frame)
      : op_(op),
        plan_(plan),
        given_(frame),
        target_(plan.device),
        counters_(DeviceCountersOf(op, plan)),
        data_(FindCheckedData(op, plan, frame)) {}

  void Run() {
    RaiseLate(target_.kind, target_.number, target_.stream);
    std::memcpy(frame_, given_, sizeof frame_[0] * std::size_t(n_values()));
    if (IsTask(op_, plan_)) CheckPlannedBytes(op_, frame_);
    PackPlanned();
    CheckOnHostAlone();
    if (plan_.is_empty) return (void)CheckData();
    if (plan_.runs_on_host) return RunOnHost();
    MakeCopies();
    const PackedChecks checks = CheckData();
    if (plan_.kernel < 0) {
      counters_.calls.Add();
      if (plan_.is_fallback) counters_.fallbacks.Add();
      RunComposition(op_, plan_, frame_);
    } else if (IsTask(op_, plan_)) {
      SubmitKernel(op_, plan_, frame_, checks, NewWorkspace(), target_.stream);
    } else {
      Launch();
    }
    for (const auto& [packed, to] : results_) Unpack(target_, packed, *to);
  }

 private:
  int n_values() const { return op_.n_params + op_.n_results; }
  // Planned tensors that no kernel takes as they lie.
  void PackPlanned() {
    const Form& form = op_.contract->forms[std::size_t(plan_.form)];
    for (int i = 0; i < op_.n_params; ++i) {
      if (!(op_.planned >> i & 1) || frame_[i].tag != ANYOP_TENSOR) continue;
      const DLTensor& from = *frame_[i].t;
      const bool is_misaligned =
          reinterpret_cast<std::uintptr_t>(DataOf(from)) & std::uintptr_t(from.dtype.bits / 8 - 1);
      if (!NeedsCopy(form.params[std::size_t(i)], from) && !is_misaligned) continue;
      if (plan_.is_strict) RefuseCopies();
      auto& memory = packed_.emplace_back(std::size_t(PackedBytes(from)) / 8 + 1);
      CopyToPacked(from, memory.data());
      DLTensor& copy = copies_.emplace_back(from);
      copy.data = memory.data();
      copy.byte_offset = 0;
      copy.strides = nullptr;
      frame_[i].t = &copy;
    }
  }
  [[noreturn]] void RefuseCopies() const {
    Fail(ANYOP_UNSUPPORTED, op_.display_name() +
                                ": an argument or result is not contiguous and would be copied, "
                                "which strict mode refuses. Try contiguous tensors.");
  }

  // What needs nothing of the device: indices that the host has, and a .check that reads none of
  // its data.
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

  // Contiguous copies of what no kernel takes as it lies.
  void MakeCopies() {
    const Form& form = op_.contract->forms[std::size_t(plan_.form)];
    for (int i = 0; i < n_values(); ++i) {
      anyop_value& v = frame_[i];
      if (i >= op_.n_params) {
        if (v.tag == ANYOP_TENSOR && ResultNeedsCopy(*v.t)) {
          const DLTensor* to = v.t;
          v.t = Room(*to);
          results_.emplace_back(v.t->data, to);
        }
        continue;
      }
      const Param& p = form.params[std::size_t(i)];
      if (p.is_mut || p.is_planned) continue;
      if (v.tag == ANYOP_TENSOR && NeedsCopy(p, *v.t)) v.t = Copied(*v.t);
      if (v.tag != ANYOP_TENSORS) continue;
      auto& list = lists_.emplace_back(v.ts, v.ts + v.count);
      for (const DLTensor*& t : list) {
        if (NeedsCopy(p, *t)) t = Copied(*t);
      }
      v.ts = list.data();
    }
    if (copies_.empty()) return;
    if (plan_.is_strict) RefuseCopies();
    counters_.copies.Add(copies_.size());
  }
  const DLTensor* Copied(const DLTensor& from) {
    const DLTensor* copy = Room(from);
    Pack(target_, from, copy->data);
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
        HostFrame host(target_, op_.n_params);
        host.Fill(op_, plan_, frame_, data_.indices | data_.own);
        CheckIndices(op_, plan_, plan_.index_checks, host.values);
        if (data_.own) CallCheck(op_, plan_, host.values, op_.data->check);
      }
    }
    return {};
  }
  void CheckOnDevice(const IndexCheck& c) {
    const anyop_index_check check{
        sizeof check,
        c.is_offsets,
        c.limit,
        frame_[c.param].t,
        Forever(op_.display_name() + ": " + std::string(EntryName(op_, c.param))),
        Forever(IndexBound(c, plan_, frame_))};
    target_.Check(target_.table().check_indices(target_.stream, &check));
  }

  void Launch() {
    counters_.calls.Add();
    const anyop_device& table = target_.table();
    if (table.activate) target_.Check(table.activate(target_.number));
    static const anyop_host kServices = {sizeof(anyop_host), ANYOP_ABI_VERSION, &RunInline,
                                         &SetError, kHost.log};
    LaunchState launch{{sizeof(anyop_device_run), target_.number, nullptr}, RunState(plan_)};
    if (plan_.stops_on_failed_check && table.failed)
      launch.seen.failed = table.failed(target_.stream);
    anyop_context context = plan_.context;
    context.host = &kServices;
    context.stream = target_.stream;
    context.workspace = NewWorkspace();
    context.runtime = &launch;
    if (const int code = plan_.run(&context, frame_)) FailCall(op_, code, launch.state);
  }

  void RunOnHost() {
    HostFrame host(target_, n_values());
    host.Fill(op_, plan_, given_);
    counters_.fallbacks.Add();
    counters_.copies.Add(std::uint64_t(host.count()));
    const HeldPlan plan = GetPlan(op_, host.values);
    anyop::Run(op_, *plan, host.values);
    host.BringBack();
  }

  Operator& op_;
  Plan& plan_;
  const anyop_value* given_;
  const Target target_;
  KernelCounters& counters_;
  const CheckedData data_;
  anyop_value frame_[kMaxFrame];
  std::deque<DeviceMemory> memory_;  // given back, in the order of the stream, at the end
  std::deque<DLTensor> copies_;
  std::deque<std::vector<std::uint64_t>> packed_;  // planned ones, on the host
  std::deque<std::vector<const DLTensor*>> lists_;
  std::vector<std::pair<void*, const DLTensor*>> results_;  // to be copied to where they belong
};

}  // namespace

void RunOnDevice(Operator& op, Plan& plan, const anyop_value* frame) {
  DeviceRun(op, plan, frame).Run();
}

std::uint64_t CopiedForChecks(const Operator& op, const Plan& plan, const anyop_value* frame) {
  if (!plan.device_kind || plan.runs_on_host) return 0;
  const CheckedData data = FindCheckedData(op, plan, frame);
  return WhereChecked(op, plan, data) == CheckedWhere::kOnHost ? data.indices | data.own : 0;
}

void PackOnDevice(const DLTensor& from, void* to) { Pack(Target(from.device), from, to); }
void UnpackOnDevice(const void* from, const DLTensor& to) { Unpack(Target(to.device), from, to); }

void FillOnDevice(const DLTensor& to, const void* item) {
  const Target target(to.device);
  const std::uint64_t size = std::uint64_t(to.dtype.bits / 8);
  const std::uint64_t bytes = std::uint64_t(PackedBytes(to));
  if (bytes) target.Check(target.table().fill(target.stream, DataOf(to), bytes / size, item, size));
}

void CopyToHost(const DLTensor& from, void* to) {
  const Target target(from.device);
  StartCopyToHost(target, from, to);
  target.Wait();
}

void CopyFromHost(const void* from, const DLTensor& to) {
  const Target target(to.device);
  const std::uint64_t bytes = std::uint64_t(PackedBytes(to));
  if (!bytes) return;
  std::optional<DeviceMemory> packed;
  void* goal = DataOf(to);
  const bool is_strided = ClassOf(to) != kContiguous;
  if (is_strided) {
    packed.emplace(target.kind, target.number, bytes);
    goal = packed->data();
  }
  target.Check(target.table().copy(target.stream, target.number, goal, ANYOP_AT_HOST, from, bytes));
  if (is_strided) Unpack(target, goal, to);
  target.Wait();
}

}  // namespace anyop
