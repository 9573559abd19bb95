// SPDX-License-Identifier: Apache-2.0
#include "runtime/run/run.h"

#include <cstring>
#include <optional>

#include "anyop/tensor.h"
#include "platform/byte_count.h"
#include "platform/error.h"
#include "runtime/memory/copy.h"
#include "runtime/observe/check_mode.h"
#include "runtime/plan/make_plan.h"
#include "runtime/run/call_by_copies.h"
#include "runtime/run/device_call.h"
#include "runtime/run/index_check.h"
#include "runtime/run/memory_check.h"
#include "signature/check.h"

namespace anyop {
namespace {

// Private contiguous copies of the arguments and results that no kernel takes as they lie. Their
// bytes are counted first, so that all lie in one workspace.
class Copies {
 public:
  Copies(const Plan& plan, const anyop_value* frame) : plan_(plan), frame_(frame) {
    for (int i = 0; i < plan.op->n_params; ++i) {
      ForCopied(i, [&](const DLTensor& t) { bytes_ = AddBytes(bytes_, BytesFor(t)); });
      if (frame[i].tag == ANYOP_TENSORS) bytes_ = AddBytes(bytes_, ListBytes(frame[i].count));
    }
    ForCopiedResults([&](int i) { bytes_ = AddBytes(bytes_, BytesFor(*frame[i].t)); });
  }
  // Of all copies and lists together, or kTooManyBytes: broadcast arguments may be larger than any
  // memory. Lists count even where none of their tensors is copied, unlike in count().
  std::int64_t bytes() const { return bytes_; }

  // Replaces what must be copied in `frame` by copies in `memory`.
  void Make(void* memory, anyop_value* frame) {
    at_ = static_cast<char*>(memory);
    for (int i = 0; i < plan_.op->n_params; ++i) {
      anyop_value& v = frame[i];
      if (v.tag == ANYOP_TENSOR) v.t = Copied(i, v.t);
      if (v.tag != ANYOP_TENSORS) continue;
      auto** list = reinterpret_cast<const DLTensor**>(Take(ListBytes(v.count)));
      for (std::uint32_t k = 0; k < v.count; ++k) list[k] = Copied(i, v.ts[k]);
      v.ts = list;
    }
    ForCopiedResults([&](int i) { frame[i].t = Room(*frame_[i].t); });
  }
  int count() const { return count_; }
  // Brings the results of `frame` to where the caller wants them.
  void Finish(const anyop_value* frame) const {
    ForCopiedResults([&](int i) { CopyFromPacked(frame[i].t->data, *frame_[i].t); });
  }

 private:
  static std::int64_t Round(std::int64_t bytes) { return AlignBytes(bytes, 64); }
  static std::int64_t BytesFor(const DLTensor& t) {
    return AddBytes(Round(sizeof(DLTensor)), Round(PackedBytes(t)));
  }
  static std::int64_t ListBytes(std::uint32_t count) {
    return Round(std::int64_t(count) * std::int64_t(sizeof(void*)));
  }
  template <class F>
  void ForCopied(int i, F&& f) {
    const anyop_value& v = frame_[i];
    if (v.tag == ANYOP_TENSOR && IsCopied(plan_, i, *v.t)) f(*v.t);
    if (v.tag != ANYOP_TENSORS) return;
    for (std::uint32_t k = 0; k < v.count; ++k) {
      if (IsCopied(plan_, i, *v.ts[k])) f(*v.ts[k]);
    }
  }
  template <class F>
  void ForCopiedResults(F&& f) const {
    for (int i = plan_.op->n_params; i < plan_.op->n_params + plan_.op->n_results; ++i) {
      if (frame_[i].tag == ANYOP_TENSOR && IsCopied(plan_, i, *frame_[i].t)) f(i);
    }
  }
  char* Take(std::int64_t bytes) {
    char* taken = at_;
    at_ += Round(bytes);
    return taken;
  }
  const DLTensor* Copied(int i, const DLTensor* from) {
    if (!IsCopied(plan_, i, *from)) return from;
    DLTensor* copy = Room(*from);
    CopyToPacked(*from, copy->data);
    return copy;
  }
  DLTensor* Room(const DLTensor& like) {
    ++count_;
    auto* copy = reinterpret_cast<DLTensor*>(Take(sizeof(DLTensor)));
    *copy = like;
    copy->data = Take(PackedBytes(like));
    copy->byte_offset = 0;
    copy->strides = nullptr;
    return copy;
  }

  const Plan& plan_;
  const anyop_value* frame_;
  std::int64_t bytes_ = 0;
  char* at_ = nullptr;
  int count_ = 0;
};

}  // namespace

void RefuseCopies(const Operator& op, const Plan& plan, const anyop_value* frame) {
  const Form& form = op.contract->forms[std::size_t(plan.form)];
  for (int i = 0; i < op.n_params + op.n_results; ++i) {
    const anyop_value& v = frame[i];
    if (v.tag != ANYOP_TENSOR) continue;
    if (!IsCopied(plan, i, *v.t)) continue;
    const std::string_view name = i < op.n_params ? form.params[std::size_t(i)].name
                                                  : form.results[std::size_t(i - op.n_params)].name;
    Fail(ANYOP_UNSUPPORTED,
         op.Message(std::string(name) + " is " + Show(*v.t) +
                    (IsMisaligned(*v.t) ? " at a misaligned address"
                                        : " with strides " + ShowStrides(*v.t)) +
                    " and would be copied, which strict mode refuses. Try a contiguous tensor."));
  }
  Fail(ANYOP_UNSUPPORTED, op.Message("an element of a list would be copied, which "
                                     "strict mode refuses. Try contiguous tensors."));
}

void CheckIndices(const Operator& op, const Plan& plan, std::span<const IndexCheck> checks,
                  const anyop_value* frame) {
  for (const IndexCheck& c : checks) {
    if (IndicesHold(c, frame[c.param])) continue;
    Fail(ANYOP_INVALID_ARGUMENT, op.Message(IndexError(c, plan, frame)));
  }
}

void CallCheck(const Operator& op, const Plan& plan, const anyop_value* frame, anyop_run check) {
  if (!check) return;
  RunState state(plan);
  const anyop_context context = MakeContext(plan, nullptr, &state);
  const int code = check(&context, frame);
  if (code) FailCall(op, code, state);
}

void FailScalars(const Operator& op, const Plan& plan, const anyop_value* frame) {
  std::string error;
  CheckScalars(*op.contract, plan.form, frame, &error);
  Fail(ANYOP_INVALID_ARGUMENT, op.Message(error));
}

void RunSlow(Operator& op, Plan& plan, anyop_value* given, KernelRunner watched) {
  CheckMemory(op, plan, given);
  if (plan.device_kind) return RunOnDevice(op, plan, given, watched);
  if (plan.taken_by) return RunByCopies(op, plan, given);
  Copies copies(plan, given);
  anyop_value frame[kMaxFrame];
  std::memcpy(frame, given, sizeof(anyop_value) * std::size_t(op.n_params + op.n_results));
  std::optional<Workspace> memory;
  if (copies.bytes()) {
    try {
      memory.emplace(std::uint64_t(copies.bytes()));
    } catch (const Error& e) {
      Fail(e.code, op.Message("arguments that are not contiguous are copied, but " +
                              std::string(e.what())));
    }
    copies.Make(memory->data(), frame);
  }
  if (copies.count()) {
    if (plan.is_strict) RefuseCopies(op, plan, given);
    CountersOf(op, plan).copies.Add(std::uint64_t(copies.count()));
  }
  CheckIndices(op, plan, plan.index_checks, frame);
  CallCheck(op, plan, frame, op.data->check);
  if (plan.is_empty) return;  // only now: its indices are looked at all the same
  if (watched && IsChecking()) CallCheck(op, plan, frame, op.data->check_data);
  if (plan.kernel >= 0) {
    (watched ? watched : &RunKernel)(op, plan, frame);
  } else {  // a kernel is counted where it runs (RunKernelIn)
    CountersOf(op, plan).calls.Add();
    if (plan.is_fallback) CountersOf(op, plan).fallbacks.Add();
    RunComposition(op, plan, frame);
  }
  copies.Finish(frame);
}

}  // namespace anyop
