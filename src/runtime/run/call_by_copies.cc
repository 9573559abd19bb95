// SPDX-License-Identifier: Apache-2.0
#include "runtime/run/call_by_copies.h"

#include <cstring>
#include <deque>
#include <vector>

#include "anyop/stream.h"
#include "anyop/tensor.h"
#include "platform/error.h"
#include "runtime/memory/copy.h"
#include "runtime/memory/overlap.h"
#include "runtime/plan/frame.h"
#include "runtime/run/call.h"
#include "runtime/run/device_copy.h"
#include "runtime/run/run.h"

namespace anyop {
namespace {

// A frame of the host with its tensors on a device, without gaps, but for planned ones.
class FrameOnDevice {
 public:
  explicit FrameOnDevice(DLDevice device) : target_(device), device_(device) {}

  void Fill(const Operator& op, const Plan& plan, const anyop_value* given) {
    const int n = op.n_params + op.n_results;
    std::memcpy(values, given, sizeof(anyop_value) * std::size_t(n));
    ReplaceTensors(values, n, &lists_, [&](const DLTensor& t, int i) -> const DLTensor* {
      const bool is_param = i < op.n_params;
      if (is_param && op.planned >> i & 1) return nullptr;
      return Moved(t, is_param, IsWritten(op, plan, i));
    });
  }
  // Waits for the device. All results are brought before the first is written, so that nothing of
  // the host's is changed if it throws.
  void BringBack() {
    Finish();
    std::deque<std::vector<std::uint64_t>> brought;
    for (const Item& item : items_) {
      if (item.is_written) CopyToHost(item.there, brought.emplace_back(Words(item.there)).data());
    }
    for (const Item& item : items_) {
      if (!item.is_written) continue;
      CopyFromPacked(brought.front().data(), *item.host);
      brought.pop_front();
    }
  }
  std::uint64_t copies() const { return copies_; }

  anyop_value values[kMaxParams + kMaxResults];

 private:
  struct Item {
    const DLTensor* host;
    DLTensor there;
    DeviceMemory memory;
    bool is_written;
  };

  static std::size_t Words(const DLTensor& t) { return std::size_t(PackedBytes(t)) / 8 + 1; }

  // One copy of one tensor: a result may be an argument's very memory.
  const DLTensor* Moved(const DLTensor& host, bool is_read, bool is_written) {
    for (Item& known : items_) {
      if (!PackedBytes(host) || !IsSameMemory(*known.host, host)) continue;
      // A view of another dtype is another tensor: IsSameMemory compares element sizes alone.
      if (known.host->dtype.code != host.dtype.code) continue;
      copies_ += is_written && !known.is_written;
      known.is_written |= is_written;
      return &known.there;
    }
    Item& item = items_.emplace_back(Item{
        &host, host, {target_.kind, target_.number, std::uint64_t(PackedBytes(host))}, is_written});
    item.there.data = item.memory.data();
    item.there.byte_offset = 0;
    item.there.strides = nullptr;
    item.there.device = device_;
    copies_ += is_written;
    if (!is_read || !PackedBytes(host)) return &item.there;
    ++copies_;
    std::vector<std::uint64_t> packed(Words(host));
    CopyToPacked(host, packed.data());
    CopyFromHost(packed.data(), item.there);
    return &item.there;
  }
  // Throws what failed on the device. It is of this call, as the stream has no other work.
  void Finish() const {
    target_.Check(target_.table().synchronize(target_.number, target_.stream));
    char text[1024] = "";
    const int code =
        target_.table().late_error(target_.number, target_.stream, 0, text, sizeof text);
    if (code && !text[0]) target_.Check(code);
    if (code) Fail(code, text);
  }

  const DeviceTarget target_;
  const DLDevice device_;
  std::uint64_t copies_ = 0;
  std::deque<Item> items_;
  TensorLists lists_;
};

}  // namespace

void RunByCopies(Operator& op, const Plan& plan, const anyop_value* given) {
  const Device device(DLDevice{plan.taken_by->table.dlpack_type, 0});
  const Stream stream(device);  // of its own, so that a late error is of this call
  const StreamScope stream_scope(stream);
  Scope scope;  // calls on the host look at their data, whatever is trusted of devices
  scope.data_checks(DataChecks::kOnDevice);
  FrameOnDevice there(device.dl());
  there.Fill(op, plan, given);
  const HeldPlan own = GetPlan(op, there.values);
  Run(op, *own, there.values);
  DeviceCountersOf(op, *own).copies.Add(there.copies());
  there.BringBack();
}

}  // namespace anyop
