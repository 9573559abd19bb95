// SPDX-License-Identifier: Apache-2.0
#include "runtime/run/memory_check.h"

#include <string>

#include "anyop/tensor.h"
#include "platform/error.h"
#include "runtime/memory/overlap.h"
#include "runtime/plan/frame.h"
#include "runtime/plan/services.h"

namespace anyop {
namespace {

// A tensor of the frame: a value, or an element of a list.
struct Place {
  int index;
  std::uint32_t element;
  const DLTensor* tensor;
};

class MemoryChecker {
 public:
  MemoryChecker(const Operator& op, const Plan& plan, const anyop_value* frame)
      : op_(op), plan_(plan), frame_(frame) {}

  void Check() {
    ForPlaces([&](const Place& written) {
      if (!IsWritten(op_, plan_, written.index)) return;
      CheckAlone(written);
      ForPlaces([&](const Place& other) { CheckPair(written, other); });
    });
  }

 private:
  template <class F>
  void ForPlaces(F&& f) {
    for (int i = 0; i < op_.n_params + op_.n_results; ++i) {
      ForTensors(frame_[i], [&](const DLTensor& t, std::uint32_t k) { f(Place{i, k, &t}); });
    }
  }
  std::string NameOf(const Place& p) const { return TensorName(op_, frame_, p.index, p.element); }
  [[noreturn]] void Refuse(const std::string& text) const {
    Fail(ANYOP_INVALID_ARGUMENT, op_.Message(text));
  }

  void CheckAlone(const Place& p) const {
    const std::uintptr_t at = AddressOf(*p.tensor);
    const std::uintptr_t bytes = std::uintptr_t(Bytes(p.tensor->dtype));
    if (at & (bytes - 1)) {
      Refuse(NameOf(p) + " is at an address that is no multiple of its " + std::to_string(bytes) +
             "-byte elements, but is written. Try an aligned tensor.");
    }
    if (MayMeetItself(*p.tensor)) {
      Refuse(NameOf(p) + " is " + Show(*p.tensor) + " with strides " + ShowStrides(*p.tensor) +
             ", of which some elements share memory, but it is written. Try a contiguous tensor.");
    }
  }
  void CheckPair(const Place& written, const Place& other) const {
    if (written.index == other.index && written.element == other.element) return;
    if (IsWritten(op_, plan_, other.index) && other.index > written.index)
      return;  // the pair is seen from the other side, where `over` of the later one counts
    if (!MayShareMemory(*written.tensor, *other.tensor)) return;
    const bool is_result = written.index >= op_.n_params;
    const bool may_be_over = is_result && other.index < op_.n_params &&
                             op_.contract->forms[std::size_t(plan_.form)]
                                         .results[std::size_t(written.index - op_.n_params)]
                                         .over >>
                                     other.index &
                                 1;
    if (may_be_over && IsSameMemory(*written.tensor, *other.tensor)) return;
    Refuse(NameOf(written) + " overlaps " + NameOf(other) + " in memory, but " +
           (may_be_over ? "must be exactly it (the same address, shape and strides) or apart."
                        : "must be apart, because it is written.") +
           " Try a tensor of its own.");
  }

  const Operator& op_;
  const Plan& plan_;
  const anyop_value* frame_;
};

}  // namespace

void CheckMemory(const Operator& op, const Plan& plan, const anyop_value* frame) {
  MemoryChecker(op, plan, frame).Check();
}

}  // namespace anyop
