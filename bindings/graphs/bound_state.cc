// SPDX-License-Identifier: Apache-2.0
#include "bound_state.h"

#include <algorithm>
#include <cstring>

#include "anyop/tensor.h"
#include "graph/ir/alias.h"

namespace anyop::python {

BoundState::Form::Form(const Host& host, PyObject* object) : object_(Ref::Borrow(object)) {
  anyop_host_view view;
  is_known_ = host.ViewPlain(object, view);
  if (!is_known_) return;
  const auto& t = static_cast<const Tensor&>(view.tensor);
  dtype_ = t.dtype;
  for (int i = 0; i < t.ndim; ++i) sizes_.push_back(t.shape[i]);
  for (int i = 0; i < t.ndim; ++i) sizes_.push_back(t.stride(i));
}

BoundState::Form::Form(const Form& other)
    : object_(Ref::Borrow(other.object_.get())),
      is_known_(other.is_known_),
      dtype_(other.dtype_),
      sizes_(other.sizes_) {}

bool BoundState::Form::IsOf(const Host& host) const {
  anyop_host_view view;
  if (!host.ViewPlain(object_.get(), view)) return !is_known_;
  const auto& t = static_cast<const Tensor&>(view.tensor);
  const std::size_t rank = sizes_.size() / 2;
  if (!is_known_ || std::size_t(t.ndim) != rank || std::memcmp(&t.dtype, &dtype_, sizeof dtype_)) {
    return false;
  }
  for (std::size_t i = 0; i < rank; ++i) {
    if (t.shape[i] != sizes_[i] || t.stride(int(i)) != sizes_[rank + i]) return false;
  }
  return true;
}

void BoundState::Add(const std::string& name, PyObject* object) {
  const Host* host = HostOfTensor(object);
  HostMemory memory = host ? host->MemoryOf(object) : HostMemory{};
  if (memory.owner) rows_.push_back({name, host, std::move(memory), Form(*host, object)});
}

void BoundState::Add(const BoundState& other) {
  for (const Row& r : other.rows_) {
    HostMemory memory{Ref::Borrow(r.memory.owner.get()), r.memory.data, r.memory.bytes};
    rows_.push_back({r.name, r.host, std::move(memory), r.form});
  }
  for (const Ref& object : other.kept_) Keep(object.get());
}

void BoundState::KeepOnly(const Graph& graph) {
  const std::vector<bool> is_written = WrittenRoots(graph);
  std::erase_if(rows_, [&](const Row& row) {
    const char* begin = static_cast<const char*>(row.memory.data);
    bool is_state = false, is_changed = false;
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      if (graph.values[v].kind != GraphValue::kState) continue;
      const char* at = static_cast<const char*>(graph.values[v].array.data());
      const bool is_mine = at == begin || (at > begin && at < begin + row.memory.bytes);
      is_state |= is_mine;
      is_changed |= is_mine && is_written[v];
    }
    if (is_changed) written_.push_back({row.host, Ref::Borrow(row.memory.owner.get())});
    return !is_state;
  });
}

void BoundState::Refuse(const std::string& graph, const Row& row) {
  ThrowValueError(graph + ": the state " + row.name +
                  " was resized or given other memory or another form, but a graph keeps what it "
                  "was made with. Try making the graph again.");
}

}  // namespace anyop::python
