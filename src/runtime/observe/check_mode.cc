// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/check_mode.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <list>
#include <memory>
#include <optional>

#include "anyop/tensor.h"
#include "platform/guarded_memory.h"
#include "runtime/memory/copy.h"
#include "runtime/memory/overlap.h"
#include "runtime/observe/capsule.h"
#include "runtime/observe/deep_check.h"
#include "runtime/plan/frame.h"
#include "runtime/run/call.h"
#include "runtime/run/run.h"

namespace anyop {
namespace {

// Elements whose bytes are all 0xff are NaN in every float type.
constexpr unsigned char kGuardByte = 0xa5, kNaNByte = 0xff;
constexpr std::size_t kWorkspaceAlignment = 64;  // what anyop/abi.h promises

// A NaN that no kernel makes, as the bits of an element: a signalling one, while arithmetic makes
// quiet ones alone. 0 for types that have none.
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

// A tensor of the call in memory of its own, with the caller's strides. The bytes between its
// elements are `fill`: NaN for a tensor that is only read, so that reading them shows in results.
class GuardedCopy {
 public:
  GuardedCopy(int i, const DLTensor& t, unsigned char fill)
      : index(i), original(&t), tensor(t), fill_(fill) {
    const Extent extent = ExtentOf(t);
    // With an alignment of 1 the zone begins right behind the last byte. Elements are aligned
    // still, because the bytes are a multiple of their size and end with a page.
    memory_.emplace(extent.end - extent.begin, 1, fill, fill);
    tensor.data = memory_->begin() + (extent.begin == extent.end ? 0 : AddressOf(t) - extent.begin);
    tensor.byte_offset = 0;
  }
  void Fill(const std::vector<char>& elements) { CopyFromPacked(elements.data(), tensor); }
  const GuardedMemory& memory() const { return *memory_; }

  // Whether a byte between the elements has changed. The elements are lost: they become `fill` as
  // well, so that all of the memory must be that.
  bool GapsHaveChanged() {
    Fill(std::vector<char>(std::size_t(PackedBytes(tensor)), char(fill_)));
    const char* const begin = memory_->begin();
    return !std::all_of(begin, begin + memory_->bytes(),
                        [&](char c) { return static_cast<unsigned char>(c) == fill_; });
  }

  int index;  // in the frame
  const DLTensor* original;
  DLTensor tensor;
  bool is_new = false;         // nothing was there
  std::vector<char> packed{};  // of the elements, after the call

 private:
  unsigned char fill_;
  std::optional<GuardedMemory> memory_;
};

// "byte 1 after its end"
std::string Place(std::ptrdiff_t at, std::size_t bytes) {
  if (at < 0) return "byte " + std::to_string(-at) + " before its beginning";
  return "byte " + std::to_string(at - std::ptrdiff_t(bytes) + 1) + " after its end";
}

class CheckedCall {
 public:
  CheckedCall(const Operator& op, const Plan& plan, const anyop_value* frame)
      : op_(op), plan_(plan) {
    std::copy_n(frame, op.n_params + op.n_results, frame_);
    if (IsCheckingDeeply()) deep_.emplace(op, plan, frame);
    for (int i = 0; i < op.n_params + op.n_results; ++i) AddValue(i);
  }

  // Throws Finding, or what the kernel reports.
  void Run() {
    for (GuardedCopy& w : written_) ShareWithArguments(&w);
    for (GuardedCopy& r : read_) r.Fill(Packed(*r.original));
    const GuardedMemory workspace(plan_.workspace_bytes, kWorkspaceAlignment, kNaNByte, kGuardByte);
    RunKernelIn(workspace.begin(), plan_, frame_, CountersOfCall(op_, plan_));
    CheckAround(workspace, "its workspace of " + std::to_string(plan_.workspace_bytes) + " bytes");
    for (GuardedCopy& w : written_) CheckWritten(&w);
    for (GuardedCopy& r : read_) CheckRead(&r);
    if (deep_) {
      for (GuardedCopy& w : written_) w.Fill(w.packed);  // CheckWritten has lost the elements
      deep_->Compare(frame_);
    }
    for (const GuardedCopy& w : written_) CopyFromPacked(w.packed.data(), *w.original);
  }

 private:
  std::string NameOf(const GuardedCopy& c) const {
    return std::string(EntryName(op_, c.index)) + ", " + Show(c.tensor);
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
    if (!IsWritten(op_, plan_, i)) return &read_.emplace_back(i, t, kNaNByte).tensor;
    GuardedCopy& w = written_.emplace_back(i, t, kGuardByte);
    w.is_new = i >= op_.n_params;
    return &w.tensor;
  }

  // Fills a written tensor before the call. If a result lies in the very memory of an argument
  // (`over`), both are one copy, so that the kernel sees one memory as well.
  void ShareWithArguments(GuardedCopy* w) {
    for (int i = 0; i < op_.n_params && w->index >= op_.n_params; ++i) {
      if (frame_[i].tag != ANYOP_TENSOR || IsWritten(op_, plan_, i)) continue;
      const std::size_t n_shared = read_.remove_if([&](const GuardedCopy& r) {
        return r.index == i && IsSameMemory(*r.original, *w->original);
      });
      if (!n_shared) continue;
      frame_[i].t = &w->tensor;
      w->is_new = false;
    }
    if (!w->is_new) return w->Fill(Packed(*w->original));
    std::vector<char> packed(std::size_t(PackedBytes(*w->original)), char(kGuardByte));
    const std::uint64_t poison = PoisonOf(w->tensor);
    const auto bytes = std::size_t(Bytes(w->tensor.dtype));
    for (std::size_t at = 0; poison && at < packed.size(); at += bytes) {
      std::memcpy(packed.data() + at, &poison, bytes);
    }
    w->Fill(packed);
  }

  void CheckAround(const GuardedMemory& memory, const std::string& what) const {
    std::ptrdiff_t at = 0;
    if (memory.FindChange(&at)) {
      throw Finding("write-outside",
                    "wrote outside " + what + ": " + Place(at, memory.bytes()) + " has changed");
    }
    if (memory.FindTouch(&at)) {
      throw Finding("read-outside",
                    "read outside " + what + ": " + Place(at, memory.bytes()) + " was read");
    }
  }

  void CheckWritten(GuardedCopy* w) const {
    CheckAround(w->memory(), NameOf(*w));
    w->packed = Packed(w->tensor);
    if (w->GapsHaveChanged()) {
      throw Finding("write-outside",
                    "wrote outside " + NameOf(*w) + ": a byte between its rows has changed");
    }
    const std::uint64_t poison = w->is_new ? PoisonOf(w->tensor) : 0;
    const auto bytes = std::size_t(Bytes(w->tensor.dtype));
    for (std::size_t at = 0; poison && at < w->packed.size(); at += bytes) {
      if (std::memcmp(w->packed.data() + at, &poison, bytes)) continue;
      throw Finding("unwritten", "did not write element " + std::to_string(at / bytes) + " of " +
                                     NameOf(*w) + ", although every element must be written");
    }
  }

  void CheckRead(GuardedCopy* r) const {
    CheckAround(r->memory(), NameOf(*r));
    if (Packed(r->tensor) != Packed(*r->original)) {
      throw Finding("write-input", "wrote its input " + NameOf(*r) +
                                       ", which the signature does not mark as `mut`; the "
                                       "caller's tensor is as it was");
    }
    if (r->GapsHaveChanged()) {
      throw Finding("write-outside",
                    "wrote outside " + NameOf(*r) + ": a byte between its rows has changed");
    }
  }

  const Operator& op_;
  const Plan& plan_;
  anyop_value frame_[kMaxParams + kMaxResults];
  std::deque<std::vector<const DLTensor*>> lists_;
  std::list<GuardedCopy> written_, read_;  // frames point into them
  std::optional<DeepCheck> deep_;
};

}  // namespace

void RunKernelChecked(const Operator& op, const Plan& plan, const anyop_value* frame) {
  try {
    CheckedCall(op, plan, frame).Run();
  } catch (const Finding& finding) {
    const std::string of = KernelFile(plan);
    const std::string sentence =
        op.Message("the kernel " + std::string(KernelName(plan)) + " " + finding.what() +
                   ". This is a defect of the " +
                   (of.empty() ? "operator" : "kernel, which is of " + of) + ". Please report it.");
    // A call that is repeated from a file runs on the host, where another kernel is taken.
    if (plan.device_kind) {
      Fail(ANYOP_INTERNAL, sentence + " [" + finding.code +
                               "]\n  to repeat it: the program itself, " +
                               "because a file of a call holds memory of the host");
    }
    const std::string file = SaveFinding(op, plan, frame, finding.code, sentence);
    Fail(ANYOP_INTERNAL,
         sentence + " [" + finding.code + "]" +
             (file.empty() ? "" : "\n  to repeat it: anyop replay --check " + file));
  }
}

}  // namespace anyop
