// SPDX-License-Identifier: Apache-2.0
#include "optest/frame.h"

#include <algorithm>
#include <type_traits>

#include "anyop/value.h"
#include "optest/running.h"
#include "signature/expression.h"

namespace anyop::optest {

Arrangement MixedArrangement(Call& call) {
  std::vector<Layout> layouts;
  for (int i = 0; i < kMaxParams + kMaxResults; ++i) {
    layouts.push_back(Layout(call.Draw(1, kLayouts - 1)));
  }
  Arrangement arrangement;
  arrangement.layout = [layouts](int i) { return layouts[std::size_t(i)]; };
  return arrangement;
}

Frame::Frame(const Operator& op, const std::vector<Argument>& arguments,
             const Arrangement& arrangement)
    : op_(op),
      form_(op.contract->forms[0]),
      values_(std::size_t(op.n_params + op.n_results), anyop_value{}) {
  for (int i = 0; i < op.n_params; ++i) SetArgument(i, arguments[std::size_t(i)], arrangement);
}

Layout Frame::LayoutOf(int index, const Arrangement& arrangement) const {
  if (!arrangement.layout) return Layout::kDense;
  const Layout layout = arrangement.layout(index);
  const bool must_be_dense = index < op_.n_params && form_.params[std::size_t(index)].is_dense;
  const bool has_gaps = layout == Layout::kGapped || layout == Layout::kPacked ||
                        layout == Layout::kTransposed || layout == Layout::kExpanded;
  if (must_be_dense && has_gaps) return Layout::kMisaligned;
  const bool is_written = index >= op_.n_params || form_.params[std::size_t(index)].is_mut;
  return is_written && layout == Layout::kExpanded ? Layout::kGapped : layout;
}

const DLTensor* Frame::AddTensor(int index, const std::string& name, const Array& array,
                                 Layout layout) {
  const bool is_written = form_.params[std::size_t(index)].is_mut;
  slots_.push_back({index, name, std::make_shared<Memory>(array, layout), is_written});
  return &slots_.back().memory->tensor();
}

void Frame::SetArgument(int index, const Argument& argument, const Arrangement& arrangement) {
  anyop_value& v = values_[std::size_t(index)];
  kept_.push_back(std::holds_alternative<Array>(argument) ? Argument() : argument);
  const std::string name(form_.params[std::size_t(index)].name);
  if (const auto* array = std::get_if<Array>(&argument)) {
    v = TensorValue(AddTensor(index, name, *array, LayoutOf(index, arrangement)));
  } else if (const auto* arrays = std::get_if<std::vector<Array>>(&argument)) {
    auto& list = lists_.emplace_back();
    for (std::size_t k = 0; k < arrays->size(); ++k) {
      list.push_back(AddTensor(index, name + "[" + std::to_string(k) + "]", (*arrays)[k],
                               LayoutOf(index, arrangement)));
    }
    v = TensorsValue(list.data(), list.size());
  } else if (const auto* i = std::get_if<std::int64_t>(&argument)) {
    v = IntValue(*i);
  } else if (const auto* f = std::get_if<double>(&argument)) {
    v = FloatValue(*f);
  } else if (const auto* b = std::get_if<bool>(&argument)) {
    v = BoolValue(*b);
  } else if (const auto* d = std::get_if<DType>(&argument)) {
    v = DTypeValue(*d);
  } else if (std::holds_alternative<std::string>(argument)) {
    const std::string& word = std::get<std::string>(kept_.back());
    v = WordValue(word, op_.contract->word(index, word));
  } else if (std::holds_alternative<std::vector<std::int64_t>>(argument)) {
    const auto& list = std::get<std::vector<std::int64_t>>(kept_.back());
    v = IntsValue(list.data(), list.size());
  } else if (std::holds_alternative<std::vector<double>>(argument)) {
    const auto& list = std::get<std::vector<double>>(kept_.back());
    v = FloatsValue(list.data(), list.size());
  }
}

void Frame::AddResult(int result, DType dtype, const std::vector<std::int64_t>& shape,
                      const Arrangement& arrangement) {
  if (arrangement.declined >> result & 1) return;
  const int index = op_.n_params + result;
  const std::string name(form_.results[std::size_t(result)].name);
  anyop_value& v = values_[std::size_t(index)];
  const std::size_t r = std::size_t(result);
  const int over = r < arrangement.over.size() ? arrangement.over[r] : -1;
  for (Slot& slot : slots_) {
    if (over < 0 || slot.index != over) continue;
    slot.is_shared = true;
    slots_.push_back({index, name, slot.memory, true});
    v = TensorValue(&slots_.back().memory->tensor());
    return;
  }
  const Layout layout = LayoutOf(index, arrangement);
  slots_.push_back(
      {index, name, std::make_shared<Memory>(dtype, shape, layout, arrangement.poison), true});
  v = TensorValue(&slots_.back().memory->tensor());
}

bool Frame::HasSomethingToWrite() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return slot.is_written && static_cast<const Tensor&>(slot.memory->tensor()).size() > 0;
  });
}

Results Frame::Read() const {
  Results results;
  for (const Slot& slot : slots_) {
    if (slot.is_written) results.emplace(slot.name, slot.memory->Read());
  }
  return results;
}

Pages Frame::PagesOf(const std::string& name) const {
  for (const Slot& slot : slots_) {
    if (slot.is_written && slot.name == name) return slot.memory->pages();
  }
  return {};
}

std::string_view Frame::KindOf(const Slot& slot) const {
  if (slot.index >= op_.n_params) return "result ";
  return slot.is_written ? "`mut` argument " : "argument ";
}

Defect Frame::FindDefect(bool may_write) const {
  for (const Slot& slot : slots_) {
    const bool elements_too = !may_write || !(slot.is_written || slot.is_shared);
    const Trespass trespass = slot.memory->FindTrespass(elements_too);
    if (trespass.kind == Trespass::kNone) continue;
    const std::string text =
        std::string(KindOf(slot)) + slot.name + ", " + Show(slot.memory->tensor());
    const std::string advice =
        !may_write                            ? "A call that is refused writes nothing."
        : trespass.kind == Trespass::kElement ? "Only results and `mut` arguments are written."
        : trespass.kind == Trespass::kGap     ? "Rows may lie apart. Try " + slot.name + ".row(r)."
                                              : "Its loops must stay within the tensor.";
    return DefectOf(trespass, text, slot.name, advice);
  }
  return {};
}

void Frame::NoteMemories() const {
  for (const Slot& slot : slots_) {
    NoteMemory(slot.memory->begin(), slot.memory->bytes(), KindOf(slot), slot.name);
  }
}

}  // namespace anyop::optest
