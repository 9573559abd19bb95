// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/make_plan.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <vector>

#include "anyop/tensor.h"
#include "platform/byte_count.h"
#include "platform/error.h"
#include "platform/threads.h"
#include "runtime/device/device.h"
#include "runtime/plan/frame.h"
#include "runtime/plan/services.h"
#include "runtime/run/device_copy.h"

namespace anyop {
namespace {

// True if no kernel takes the parameter as it lies: scattered, or with gaps where it is `dense`.
bool NeedsCopy(const Param& param, const DLTensor& tensor) {
  const std::uint64_t c = ClassOf(tensor);
  return c & kScattered || (param.is_dense && c != kContiguous);
}

// Machine-independent guesses that only decide between inline and parallel, and about Python's
// lock; a fresh core of any server since 2018 is within a factor of three.
constexpr double kBytesPerNs = 10, kFlopsPerNs = 20;
// Below this, a region costs more than a second thread gives.
constexpr double kParallelNs = 8000;

class Planner {
 public:
  Planner(const Operator& op, const anyop_value* frame, const ScopeState& scope,
          const Policy& policy, Plan* plan)
      : op_(op),
        contract_(*op.contract),
        frame_(frame),
        scope_(scope),
        policy_(policy),
        plan_(*plan) {}

  void Make(std::vector<KernelChoice>* choices) {
    plan_.op = &op_;
    plan_.is_strict = scope_.is_strict;
    plan_.flags = scope_.is_batch_invariant ? ANYOP_FLAG_BATCH_INVARIANT : 0;
    plan_.n_results = op_.n_results;
    CheckPlaces();
    FindDevice();
    std::string error;
    plan_.form = Check(contract_, frame_, &plan_.bindings, &error);
    if (plan_.form < 0) Refuse(error);
    form_ = &contract_.forms[std::size_t(plan_.form)];
    if (!InferResults(contract_, plan_.form, plan_.bindings, frame_, plan_.results, &error)) {
      Refuse(error);
    }
    CheckLayouts();
    AddSlots();
    AddChecks();
    Estimate();
    Choose(choices);
    if (plan_.kernel >= 0) Tile(op_.kernels[std::size_t(plan_.kernel)]);
    plan_.needs_slow_run = plan_.kernel < 0 || plan_.has_lists || plan_.copied ||
                           !plan_.index_checks.empty() || op_.data->check || plan_.device_kind;
    plan_.counters = plan_.kernel >= 0 ? plan_.kernel : int(op_.kernels.size());
    FindOnlyWritten();
    plan_.is_direct = !plan_.needs_slow_run && !plan_.is_empty && !plan_.workspace_bytes;
    plan_.context = MakeContext(plan_, nullptr, nullptr);
  }

 private:
  [[noreturn]] void Refuse(const std::string& text) {
    Fail(ANYOP_INVALID_ARGUMENT, op_.Message(text));
  }

  // Checks what all that follows counts on: ranks, sizes of 0 or more, and bytes that fit 63 bits.
  void CheckPlaces() {
    for (int i = 0; i < op_.n_params + op_.n_results; ++i) {
      if (i >= op_.n_params && frame_[i].tag != ANYOP_TENSOR && frame_[i].tag != ANYOP_NONE) {
        Refuse("the result " + std::string(EntryName(op_, i)) + " must be a tensor.");
      }
      ForTensors(frame_[i], [&](const DLTensor& t, std::uint32_t) { CheckPlace(i, t); });
    }
  }
  // All tensors lie on the device of the first one, planned ones on the host: a planned tensor says
  // nothing about where the call runs.
  void FindDevice() {
    const DLTensor* first = nullptr;
    for (int i = 0; i < op_.n_params + op_.n_results; ++i) {
      const bool is_planned = i < op_.n_params && op_.planned >> i & 1;
      ForTensors(frame_[i], [&](const DLTensor& t, std::uint32_t k) {
        const Device device(t.device);
        if (is_planned) {
          if (!device.is_host()) [[unlikely]]
            RefusePlanned(i, k, device);
        } else if (!first) {
          first = &t;
        } else if (device != Device(first->device)) [[unlikely]] {
          RefuseDevice(i, k, device, *first);
        }
      });
    }
    if (!first || Device(first->device).is_host()) return;
    plan_.device = first->device;
    plan_.data_checks = scope_.is_strict ? DataChecks::kOnHost : scope_.data_checks;
    plan_.device_kind = FindDeviceKind(first->device.device_type);
    if (plan_.device_kind) return CheckNumber(*first);
    Fail(ANYOP_UNSUPPORTED,
         op_.Message(NameOf(*first) + " is on " + Device(first->device).name() +
                     ", but no loaded library has this device. Try anyop.load of the "
                     "device's library, or a copy on the CPU."));
  }
  void CheckNumber(const DLTensor& first) const {
    try {
      plan_.device_kind->CheckNumber(first.device.device_id);
    } catch (const Error& e) {
      Fail(e.code, op_.Message(NameOf(first) + ": " + e.what()));
    }
  }
  std::string NameOf(const DLTensor& tensor) const {
    std::string name;
    for (int i = 0; i < op_.n_params + op_.n_results; ++i) {
      ForTensors(frame_[i], [&](const DLTensor& t, std::uint32_t k) {
        if (&t == &tensor && name.empty()) name = TensorName(op_, frame_, i, k);
      });
    }
    return name;
  }
  // Out of line, and names are looked up only here: texts that nobody reads took 800 of the 9,000
  // instructions of planning a call of 17 parameters.
  [[noreturn, gnu::noinline]] void RefusePlanned(int i, std::uint32_t k, Device device) {
    Refuse(TensorName(op_, frame_, i, k) + " is on " + device.name() +
           ", but must be on cpu, because it is planned: the host reads it before the work "
           "begins. Try a copy on the CPU.");
  }
  [[noreturn, gnu::noinline]] void RefuseDevice(int i, std::uint32_t k, Device device,
                                                const DLTensor& first) {
    Refuse(TensorName(op_, frame_, i, k) + " is on " + device.name() + ", but " + NameOf(first) +
           " is on " + Device(first.device).name() + ". Try a copy on the same device.");
  }
  void CheckPlace(int i, const DLTensor& t) {
    if (t.ndim < 0 || t.ndim > kMaxRank) [[unlikely]] {
      Refuse(std::string(EntryName(op_, i)) + " has " + std::to_string(t.ndim) +
             " dimensions, but at most " + std::to_string(kMaxRank) + " are possible.");
    }
    bool is_negative = false;
    for (int d = 0; d < t.ndim; ++d) is_negative |= t.shape[d] < 0;
    if (is_negative) [[unlikely]] {
      Refuse(std::string(EntryName(op_, i)) + " is " + Show(t) + ", but no size can be negative.");
    }
    if (TensorBytes(Bytes(t.dtype), {t.shape, std::size_t(t.ndim)}) == kTooManyBytes) [[unlikely]] {
      Refuse(std::string(EntryName(op_, i)) + " is " + Show(t) +
             ", but the bytes of a tensor must be below 2^63.");
    }
  }

  void CheckLayouts() {
    for (int i = 0; i < op_.n_params; ++i) {
      const Param& p = form_->params[std::size_t(i)];
      if (!IsTensor(p.kind)) continue;
      ForTensors(frame_[i], [&](const DLTensor& t, std::uint32_t) {
        if (p.is_mut) CheckWritten(i, t, p.is_dense);
        if (NeedsCopy(p, t)) plan_.copied |= 1ull << i;
      });
    }
    for (int r = 0; r < op_.n_results; ++r) {
      const int i = op_.n_params + r;
      ForTensors(frame_[i], [&](const DLTensor& t, std::uint32_t) {
        CheckWritten(i, t, false);
        if (ClassOf(t) & kScattered) plan_.copied |= 1ull << i;
      });
    }
  }
  void CheckWritten(int i, const DLTensor& t, bool is_dense) {
    const std::uint64_t c = ClassOf(t);
    const char* needed = nullptr;
    if (c & kRepeated) needed = "no stride 0, because it is written";
    // On the host a written argument is copied to and fro, as a result is.
    const bool is_on_device = plan_.device_kind && i < op_.n_params;
    if (c & kScattered && is_on_device) {
      needed =
          "stride 1 in its last dimension and no negative stride, because it is written on a "
          "device";
    }
    if (is_dense && c != kContiguous && is_on_device) {
      needed = "contiguous memory, because it is written on a device";
    }
    if (!needed) return;
    Refuse(std::string(EntryName(op_, i)) + " is " + Show(t) + " with strides " + ShowStrides(t) +
           ", but must have " + needed + ". Try a contiguous tensor.");
  }

  void AddSlots() {
    bool writes = false, has_mut = false;
    for (int i = 0; i < op_.n_params; ++i) {
      const Param& p = form_->params[std::size_t(i)];
      const anyop_value& v = frame_[i];
      if (v.tag == ANYOP_TENSORS && IsTensor(p.kind)) plan_.has_lists = true;
      ForTensors(frame_[i], [&](const DLTensor& t, std::uint32_t) {
        std::int64_t bytes = Bytes(t.dtype);  // CheckPlace has seen that the product fits
        for (int d = 0; d < t.ndim; ++d) bytes *= t.shape[d];
        moved_bytes_ += double(bytes);
        has_mut |= p.is_mut;
        writes |= p.is_mut && bytes > 0;
        if (plan_.device_kind && p.is_planned) return;  // its address is the host's
        if (v.tag == ANYOP_TENSOR) AddSlot(i, ClassOf(t) == kContiguous, p.is_mut, t.dtype, bytes);
      });
    }
    for (int r = 0; r < op_.n_results; ++r) {
      const ResultShape& s = plan_.results[r];
      const anyop_value& v = frame_[op_.n_params + r];
      writes |= s.bytes > 0;
      moved_bytes_ += double(s.bytes);
      const bool is_contiguous = v.tag != ANYOP_TENSOR || ClassOf(*v.t) == kContiguous;
      AddSlot(op_.n_params + r, is_contiguous, true, ToDL(s.dtype), s.bytes);
    }
    plan_.is_empty = !writes && (op_.n_results > 0 || has_mut);
  }
  void AddSlot(int i, bool is_contiguous, bool is_written, DLDataType dtype, std::int64_t bytes) {
    TensorSlot slot{
        std::uint8_t(i), is_contiguous, is_written, std::uint8_t(AlignmentOf(dtype) - 1), bytes, 0};
    if (i >= op_.n_params && is_contiguous) slot.over = OverSlots(i - op_.n_params);
    slot.over |= 1ull << plan_.n_slots;
    plan_.written_slots |= std::uint64_t(is_written && bytes > 0) << plan_.n_slots;
    plan_.slots[plan_.n_slots++] = slot;
  }
  // For OneWriteIsSimple, which looks at no tag and at no stride: every slot has a tensor, and its
  // bytes are its extent.
  void FindOnlyWritten() {
    if (std::popcount(plan_.written_slots) != 1) return;
    for (const Result& r : form_->results) {
      if (r.is_optional) return;
    }
    for (int k = 0; k < plan_.n_slots; ++k) {
      if (!plan_.slots[k].is_contiguous) return;
    }
    plan_.only_written = std::countr_zero(plan_.written_slots);
  }
  // The slots of arguments that the result may lie on, by bit: those that the signature names after
  // `over`, contiguous, of its shape and element size. In them only the address is left to compare.
  std::uint64_t OverSlots(int result) const {
    const ResultShape& r = plan_.results[result];
    std::uint64_t over = 0;
    for (int k = 0; k < plan_.n_slots; ++k) {
      const TensorSlot& s = plan_.slots[k];
      if (s.index >= op_.n_params || !s.is_contiguous) continue;
      const DLTensor& t = *frame_[s.index].t;
      if (!(form_->results[std::size_t(result)].over >> s.index & 1)) continue;
      if (t.ndim != r.rank || !std::equal(r.shape, r.shape + r.rank, t.shape)) continue;
      if (Bytes(t.dtype) == Bytes(r.dtype)) over |= 1ull << k;
    }
    return over;
  }

  void AddChecks() {
    const auto& scalars = contract_.scalar_checks[std::size_t(plan_.form)];
    plan_.scalar_checks = scalars.data();
    plan_.n_scalar_checks = int(scalars.size());
    for (int i = 0; i < op_.n_params; ++i) {
      const Param& p = form_->params[std::size_t(i)];
      if (p.rule == IndexRule::kNone || frame_[i].tag == ANYOP_NONE) continue;
      const Number n = Evaluate(contract_, plan_.form, p.bound, plan_.bindings, frame_);
      if (!n.known) continue;  // over an argument that is absent
      plan_.index_checks.push_back({std::uint8_t(i), p.rule == IndexRule::kOffsets, n.i});
    }
  }

  void Estimate() {
    const double bytes = ValueOf(op_.bytes, plan_, frame_, moved_bytes_);
    const double flops = ValueOf(op_.flops, plan_, frame_, 0);
    plan_.estimated_ns = std::max(bytes / kBytesPerNs, flops / kFlopsPerNs);
    const int most = scope_.threads ? scope_.threads : NumThreads();
    plan_.threads = plan_.estimated_ns < kParallelNs ? 1 : most;
  }

  // Whether the device would have to copy a tensor with gaps, and cannot. Planned ones are copied
  // by the host.
  bool LacksPack() const {
    const bool can = !plan_.device_kind ||
                     (CanPack(plan_.device_kind->table) && CanUnpack(plan_.device_kind->table));
    return !can && (plan_.copied & ~op_.planned);
  }

  void Choose(std::vector<KernelChoice>* choices) {
    if (!plan_.device_kind) plan_.taken_by = TakerOfHostCalls(op_, policy_);
    if (plan_.taken_by) return ChooseThere(choices);
    const Request request{op_,     plan_.form, plan_.bindings,    frame_,
                          policy_, scope_,     plan_.device_kind, plan_.device.device_id};
    plan_.kernel = Dispatch(request, choices);
    // Gaps that the device cannot copy are a reason for the host, too, even where it has a kernel.
    if ((plan_.kernel == kNoKernel || LacksPack()) && plan_.device_kind && scope_.runs_on_host) {
      plan_.kernel = kComposition;
      plan_.runs_on_host = true;
    }
    if (plan_.kernel == kNoKernel) {
      std::vector<KernelChoice> all;
      Dispatch(request, &all);
      std::string text = UnsupportedText(op_, all);
      if (!plan_.device_kind) AddHowToPin(&text);
      if (plan_.device_kind) {
        text +=
            "\nIt is on " + Device(plan_.device).name() +
            ". Try anyop.fallback(\"cpu\"), in C++ Scope().fallback_to_host(), which runs it on "
            "the CPU, on copies.";
      }
      Fail(ANYOP_UNSUPPORTED, text);
    }
    // A composition that the policy asks for, by disabling the operator, is no fallback.
    const bool is_asked_for = !policy_.Enables(op_.name);
    plan_.is_fallback =
        (plan_.kernel == kComposition && !is_asked_for && HasKernels()) || plan_.runs_on_host;
    if (!plan_.is_fallback || !scope_.is_strict) return;
    std::vector<KernelChoice> all;
    Dispatch(request, &all);
    Fail(ANYOP_UNSUPPORTED, UnsupportedText(op_, all) + "\nstrict mode refuses " +
                                (plan_.runs_on_host ? "copies to the host." : "the composition."));
  }

  // For a call on the host that no kernel takes: names a kernel of a device that takes host calls.
  void AddHowToPin(std::string* text) const {
    for (const OperatorKernel& k : op_.kernels) {
      const DeviceKind* kind = FindDeviceKind(k.device);
      if (!kind || !kind->table.takes_host_calls) continue;
      *text += "\nTry the policy \"" + op_.display_name() + "=" + k.name + "\", which runs it on " +
               kind->NameOf(0) + ", on copies.";
      return;
    }
  }

  // A call on the host that a device takes, on copies without gaps. Only whether a kernel takes
  // them is asked here: which one runs is in the plan of the call that is made with the copies.
  void ChooseThere(std::vector<KernelChoice>* choices) {
    anyop_value frame[kMaxParams + kMaxResults];
    const int n = op_.n_params + op_.n_results;
    std::copy_n(frame_, n, frame);
    std::deque<DLTensor> tensors;
    TensorLists lists;
    ReplaceTensors(frame, n, &lists, [&](const DLTensor& from, int) {
      DLTensor& t = tensors.emplace_back(from);
      t.strides = nullptr;
      return &t;
    });
    const Request request{op_, plan_.form, plan_.bindings, frame, policy_, scope_, plan_.taken_by};
    plan_.kernel = kComposition;
    if (Dispatch(request, choices) != kNoKernel) return;
    std::vector<KernelChoice> all;
    Dispatch(request, &all);
    Fail(ANYOP_UNSUPPORTED, UnsupportedText(op_, all));
  }

  // Whether the operator has kernels for the call's device. If not, the composition is its
  // implementation there, and not a fallback.
  bool HasKernels() const {
    return std::ranges::any_of(
        op_.kernels, [&](const OperatorKernel& k) { return IsFor(k, plan_.device_kind); });
  }

  void Tile(const OperatorKernel& k) {
    plan_.run = k.data.run;
    plan_.kernel_data = k.data.data;
    plan_.stops_on_failed_check = k.stops;
    if (!k.workspace.node.empty() && k.workspace.node[std::size_t(plan_.form)] >= 0) {
      const Number n = Evaluate(contract_, plan_.form, k.workspace.node[std::size_t(plan_.form)],
                                plan_.bindings, frame_, plan_.threads);
      if (n.fault == Fault::kOverflow || (n.known && n.i > kMostBytes)) {
        Fail(ANYOP_OUT_OF_MEMORY,
             op_.Message("the kernel " + k.name +
                         " needs a workspace of more than 2^46 bytes, but no memory "
                         "is as large. Try smaller tensors."));
      }
      if (!n.known || n.i < 0) {
        Fail(ANYOP_INTERNAL, op_.Message(".workspace of " + k.name + ", " + k.workspace.text +
                                         ", has no value here."));
      }
      plan_.workspace_bytes = std::uint64_t(n.i);
    }
  }

  const Operator& op_;
  const Contract& contract_;
  const anyop_value* frame_;
  const ScopeState& scope_;
  const Policy& policy_;
  Plan& plan_;
  const Form* form_ = nullptr;
  double moved_bytes_ = 0;
};

}  // namespace

bool IsCopied(const Plan& plan, int i, const DLTensor& tensor) {
  const bool is_planned = plan.copied >> i & 1;
  if (i >= plan.op->n_params) return is_planned;
  const Param& param = plan.op->contract->forms[std::size_t(plan.form)].params[std::size_t(i)];
  // Of a list the plan's bit says that some element is copied: each is looked at again.
  const bool is_alone = param.kind == ParamKind::kTensor;
  const bool has_copy = is_planned && (is_alone || NeedsCopy(param, tensor));
  return has_copy || (!param.is_mut && IsMisaligned(tensor));  // which CheckMemory refuses
}

bool IsMisaligned(const DLTensor& t) {
  return AddressOf(t) & std::uintptr_t(AlignmentOf(t.dtype) - 1);
}

double ValueOf(const Expression& e, const Plan& plan, const anyop_value* frame, double otherwise) {
  if (e.node.empty() || e.node[std::size_t(plan.form)] < 0) return otherwise;
  const Number n =
      Evaluate(*plan.op->contract, plan.form, e.node[std::size_t(plan.form)], plan.bindings, frame);
  return !n.known ? otherwise : n.is_float ? n.f : double(n.i);
}

void MakePlan(const Operator& op, const anyop_value* frame, const ScopeState& scope,
              const Policy& policy, Plan* plan, std::vector<KernelChoice>* choices) {
  Planner(op, frame, scope, policy, plan).Make(choices);
}

}  // namespace anyop
