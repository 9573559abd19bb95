// SPDX-License-Identifier: Apache-2.0
#include "runtime/check_mode.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>

#include "anyop/tensor.h"
#include "platform/env.h"
#include "runtime/call.h"
#include "runtime/copy.h"
#include "runtime/hash_bytes.h"
#include "runtime/overlap.h"
#include "runtime/run.h"

namespace anyop {
namespace {

constexpr std::size_t kGuard = 4096;  // bytes on each side
constexpr unsigned char kGuardByte = 0xa5, kNaNByte = 0xff;

std::atomic<int> g_is_checking{-1};  // -1: not yet known

// A NaN that no kernel makes, as the bits of an element; 0 for what has none.
std::uint64_t PoisonOf(const DLTensor& t) {
  switch (static_cast<const Tensor&>(t).type()) {
    case DType::kF16:
      return 0x7da5;
    case DType::kBF16:
      return 0x7fa5;
    case DType::kF32:
      return 0x7fa5a5a5;
    case DType::kF64:
      return 0x7ff5a5a5a5a5a5a5;
    default:
      return 0;
  }
}

// Bytes between guards, at a given place within a cache line.
class Guarded {
 public:
  Guarded(std::size_t bytes, std::uintptr_t like, unsigned char fill)
      : bytes_(bytes), memory_(bytes + 2 * kGuard + 64, char(kGuardByte)) {
    const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(memory_.data()) + kGuard;
    begin_ = memory_.data() + kGuard + ((like - at) & 63);
    std::memset(begin_, fill, bytes);
  }
  char* begin() const { return begin_; }
  void Remember() { before_ = memory_; }
  char* before() { return before_.data() + (begin_ - memory_.data()); }

  // The first byte that is not as it was, from begin() on; false: all are.
  bool FindChange(std::ptrdiff_t* at) const {
    if (memory_ == before_) return false;
    const auto changed = std::mismatch(memory_.begin(), memory_.end(), before_.begin()).first;
    *at = (memory_.data() + (changed - memory_.begin())) - begin_;
    return true;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  const std::size_t bytes_;
  std::vector<char> memory_, before_;
  char* begin_;
};

class CheckedCall {
 public:
  CheckedCall(const Operator& op, const Plan& plan, const anyop_value* frame)
      : op_(op), plan_(plan), form_(op.contract->forms[std::size_t(plan.form)]) {
    std::copy_n(frame, op.n_params + op.n_results, frame_);
    for (int i = 0; i < op.n_params + op.n_results; ++i) AddValue(i);
  }

  void Run() {
    for (Written& w : written_) ShareWithArguments(&w);
    for (Read& r : read_) r.hash = HashOf(*r.tensor);
    Guarded workspace(plan_.workspace_bytes, 0, kNaNByte);
    for (Written& w : written_) w.copy.Remember();
    workspace.Remember();
    RunKernelIn(workspace.begin(), op_, plan_, frame_);
    CheckWorkspace(&workspace);
    for (Written& w : written_) CheckWritten(&w);
    for (const Read& r : read_) {
      if (HashOf(*r.tensor) != r.hash) Refuse("changed its argument " + NameOf(r.index));
    }
    for (const Written& w : written_) CopyFromPacked(w.packed.data(), *w.original);
  }

 private:
  struct Read {
    int index;
    const DLTensor* tensor;
    std::uint64_t hash = 0;
  };
  struct Written {
    Written(int i, const DLTensor& t)
        : index(i),
          original(&t),
          extent(ExtentOf(t)),
          tensor(t),
          copy(extent.end - extent.begin, extent.begin, kGuardByte) {
      const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset;
      tensor.data = copy.begin() + (at - (extent.begin == extent.end ? at : extent.begin));
      tensor.byte_offset = 0;
    }
    int index;  // in the frame
    const DLTensor* original;
    Extent extent;
    DLTensor tensor;  // the copy
    Guarded copy;
    bool is_new = true;  // nothing was there
    std::vector<char> packed{};
  };

  bool IsWritten(int i) const { return i >= op_.n_params || form_.params[std::size_t(i)].is_mut; }
  std::string NameOf(int i) const {
    return std::string(i < op_.n_params ? form_.params[std::size_t(i)].name
                                        : form_.results[std::size_t(i - op_.n_params)].name);
  }
  [[noreturn]] void Refuse(const std::string& what) const {
    Fail(ANYOP_INTERNAL, op_.display_name() + ": the kernel " +
                             op_.kernels[std::size_t(plan_.kernel)].name + " " + what +
                             ". This is a defect of the operator. Please report it.");
  }

  void AddValue(int i) {
    anyop_value& v = frame_[i];
    if (v.tag == ANYOP_TENSOR) v.t = Added(i, *v.t);
    if (v.tag != ANYOP_TENSORS) return;
    std::vector<const DLTensor*>& list = lists_.emplace_back();
    for (std::uint32_t k = 0; k < v.count; ++k) list.push_back(Added(i, *v.ts[k]));
    v.ts = list.data();
  }
  const DLTensor* Added(int i, const DLTensor& t) {
    if (!IsWritten(i)) {
      read_.push_back({i, &t});
      return &t;
    }
    Written& w = written_.emplace_back(i, t);
    w.is_new = i >= op_.n_params;
    return &w.tensor;
  }

  // What lies in the same place as an argument is one memory for the kernel as well.
  void ShareWithArguments(Written* w) {
    for (int i = 0; i < op_.n_params && w->index >= op_.n_params; ++i) {
      if (frame_[i].tag != ANYOP_TENSOR || !IsSameMemory(*frame_[i].t, *w->original)) continue;
      frame_[i].t = &w->tensor;
      w->is_new = false;
      std::erase_if(read_, [&](const Read& r) { return r.index == i; });
    }
    std::vector<char> packed(std::size_t(PackedBytes(*w->original)));
    if (!w->is_new) {
      CopyToPacked(*w->original, packed.data());
    } else if (const std::uint64_t poison = PoisonOf(w->tensor)) {
      const std::size_t bytes = w->tensor.dtype.bits / 8;
      for (std::size_t at = 0; at < packed.size(); at += bytes) {
        std::memcpy(packed.data() + at, &poison, bytes);
      }
    } else {
      std::fill(packed.begin(), packed.end(), char(kGuardByte));
    }
    CopyFromPacked(packed.data(), w->tensor);
  }

  static std::uint64_t HashOf(const DLTensor& t) {
    if (static_cast<const Tensor&>(t).is_contiguous()) {
      const Extent e = ExtentOf(t);
      return HashBytes(reinterpret_cast<const void*>(e.begin), e.end - e.begin);
    }
    std::vector<char> packed(std::size_t(PackedBytes(t)));
    CopyToPacked(t, packed.data());
    return HashBytes(packed.data(), packed.size());
  }

  void CheckWorkspace(Guarded* workspace) const {
    std::memcpy(workspace->before(), workspace->begin(), workspace->bytes());
    if (std::ptrdiff_t at; workspace->FindChange(&at)) {
      Refuse("wrote " + Where(at, workspace->bytes()) + " its workspace of " +
             std::to_string(workspace->bytes()) + " bytes");
    }
  }
  // "8 bytes behind"
  static std::string Where(std::ptrdiff_t at, std::size_t bytes) {
    if (at < 0) return std::to_string(-at) + " bytes before";
    if (std::size_t(at) < bytes) return "between the rows of";
    return std::to_string(std::size_t(at) - bytes) + " bytes behind";
  }

  void CheckWritten(Written* w) const {
    w->packed.resize(std::size_t(PackedBytes(w->tensor)));
    CopyToPacked(w->tensor, w->packed.data());
    DLTensor before = w->tensor;
    before.data = w->copy.before() + (static_cast<char*>(w->tensor.data) - w->copy.begin());
    CopyFromPacked(w->packed.data(), before);
    const std::string name = NameOf(w->index) + ", " + Show(w->tensor);
    if (std::ptrdiff_t at; w->copy.FindChange(&at)) {
      Refuse("wrote " + Where(at, w->copy.bytes()) + " " + name);
    }
    const std::uint64_t poison = w->is_new ? PoisonOf(w->tensor) : 0;
    const std::size_t bytes = w->tensor.dtype.bits / 8;
    for (std::size_t at = 0; poison && at < w->packed.size(); at += bytes) {
      if (std::memcmp(w->packed.data() + at, &poison, bytes)) continue;
      Refuse("did not write element " + std::to_string(at / bytes) + " of " + name);
    }
  }

  const Operator& op_;
  const Plan& plan_;
  const Form& form_;
  anyop_value frame_[kMaxParams + kMaxResults];
  std::deque<std::vector<const DLTensor*>> lists_;
  std::deque<Written> written_;  // frames point into it
  std::vector<Read> read_;
};

void RunKernelChecked(const Operator& op, const Plan& plan, const anyop_value* frame) {
  CheckedCall(op, plan, frame).Run();
}

}  // namespace

bool IsChecking() {
  int is_checking = g_is_checking.load(std::memory_order_relaxed);
  if (is_checking < 0) {
    is_checking = EnvironmentFlag("ANYOP_CHECK");
    g_is_checking.store(is_checking, std::memory_order_relaxed);
  }
  return is_checking;
}

Entry CurrentEntry() { return IsChecking() ? &RunChecked : &RunPlan; }

void SetChecking(bool on) {
  g_is_checking.store(on, std::memory_order_relaxed);
  for (Operator* op : Operators()) op->entry.store(CurrentEntry(), std::memory_order_relaxed);
}

void RunChecked(Operator& op, Plan& plan, anyop_value* frame) {
  std::string error;
  if (!CheckScalars(*op.contract, plan.form, frame, &error)) {
    Fail(ANYOP_INVALID_ARGUMENT, op.display_name() + ": " + error);
  }
  RunSlow(op, plan, frame, &RunKernelChecked);
}

}  // namespace anyop
