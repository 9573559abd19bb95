// SPDX-License-Identifier: Apache-2.0
#include "held_state.h"

#include <algorithm>
#include <cstring>

#include "anyop/tensor.h"
#include "bindings/numpy/numpy_view.h"
#include "graph/ir/alias.h"
#include "traced.h"

namespace anyop::python {

HeldState::Form::Form(const Host& host, PyObject* object) : object_(KeepObject(object)) {
  anyop_host_view view;
  is_known_ = host.ViewAnywhere(object, view);
  if (!is_known_) return;
  const auto& t = static_cast<const Tensor&>(view.tensor);
  dtype_ = t.dtype;
  for (int i = 0; i < t.ndim; ++i) sizes_.push_back(t.shape[i]);
  for (int i = 0; i < t.ndim; ++i) sizes_.push_back(t.stride(i));
}

bool HeldState::Form::IsOf(const Host& host) const {
  anyop_host_view view;
  if (!host.ViewAnywhere(this->object(), view)) return !is_known_;
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

void HeldState::Add(const std::string& name, PyObject* object) {
  const Host* host = HostOfTensor(object);
  HostMemory memory = host ? host->MemoryOf(object) : HostMemory{};
  if (memory.owner) rows_.push_back({name, host, std::move(memory), Form(*host, object)});
}

void HeldState::Add(const HeldState& other) {
  for (const Row& r : other.rows_) {
    HostMemory memory{Ref::Borrow(r.memory.owner.get()), r.memory.data, r.memory.bytes};
    rows_.push_back({r.name, r.host, std::move(memory), r.form});
  }
  for (const Ref& object : other.kept_) Keep(object.get());
}

void HeldState::KeepOnly(const Graph& graph) {
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

namespace {

bool IsSameTensor(const Array& a, const Array& b) {
  return a.data() == b.data() && a.dtype() == b.dtype() &&
         std::ranges::equal(a.shape(), b.shape()) && std::ranges::equal(a.strides(), b.strides());
}

// The array or tensor that a view of NumPy's or torch's is a view of; none for what is no view.
Ref BaseOf(PyObject* object) {
  Ref base = PyArray_Check(object) ? std::move(NumpyHost().MemoryOf(object).owner)
                                   : Ref(PyObject_GetAttrString(object, "_base"));
  if (!base) PyErr_Clear();
  return base && base.get() != object && HostOfTensor(base.get()) ? std::move(base) : Ref();
}

bool HoldsAll(PyObject* object, Extent extent) {
  const Array bytes = BytesOf(object);
  if (bytes.is_none()) return false;
  const Extent all = ExtentOf(bytes.tensor());
  return all.begin <= extent.begin && extent.end <= all.end;
}

}  // namespace

Array ArrayOf(PyObject* object) {
  const Host* host = HostOfTensor(object);
  anyop_host_view view;
  if (host && host->ViewAnywhere(object, view)) return Array::Wrap(view.tensor, KeepObject(object));
  const Ref name = ToPython(std::string("state"));
  return HeldArray("graph", name.get(), object, false, &host);
}

Array BytesOf(PyObject* object) {
  if (PyArray_Check(object)) {  // of any dtype, as what owns a bound view's memory may be
    auto* array = reinterpret_cast<PyArrayObject*>(object);
    if (!PyArray_IS_C_CONTIGUOUS(array)) return {};
    const std::int64_t bytes[] = {std::int64_t(PyArray_NBYTES(array))};
    return Array::Wrap(PyArray_DATA(array), bytes, DType::kU8, {}, KeepObject(object));
  }
  const Host* const host = HostOfTensor(object);
  anyop_host_view view;
  if (!host || !host->ViewPlain(object, view)) return {};
  const Array array = Array::Wrap(view.tensor, KeepObject(object));
  if (!array.is_contiguous()) return {};
  const std::int64_t bytes[] = {array.bytes()};
  return Array::Wrap(array.data(), bytes, DType::kU8, {}, KeepObject(object));
}

bool HeldState::IsHeldElsewhere(const Row& row) const {
  PyObject* const object = row.form.object();
  Py_ssize_t own = 2;  // references: of its form, and of the value's array
  for (const Row& r : rows_) own += r.memory.owner.get() == object;
  for (const Written& w : written_) own += w.tensor.get() == object;
  return Py_REFCNT(object) > own;
}

PyObject* HeldState::ObjectOf(const Array& value) const {
  const auto is_it = [&](const Row& row) {
    return IsSameTensor(ArrayOf(row.form.object()), value);
  };
  const auto row = std::ranges::find_if(rows_, is_it);
  return row != rows_.end() ? row->form.object() : nullptr;
}

HeldState::Holder HeldState::HolderOf(const std::string& graph, const Array& value,
                                      PyObject* copied) const {
  const Extent extent = ExtentOf(value.tensor());
  for (const Row& row : rows_) {
    PyObject* const object = row.form.object();
    if (!IsSameTensor(ArrayOf(object), value)) continue;
    // A view that only graphs have is made anew over its base, and a detach() over the tensor that
    // is copied beside it: else the copy would share no memory with these.
    const bool is_held = IsHeldElsewhere(row);
    Ref base = is_held ? Ref() : BaseOf(object);
    if (base && HoldsAll(base.get(), extent)) return {std::move(base)};
    for (Py_ssize_t k = 0; !is_held && copied && k < PyList_GET_SIZE(copied); ++k) {
      PyObject* const other = PyList_GET_ITEM(copied, k);
      if (other != object && HostOfTensor(other) == row.host && HoldsAll(other, extent)) {
        return {Ref::Borrow(other)};
      }
    }
    return {Ref::Borrow(object), true};
  }
  if (extent.begin == extent.end) return {};
  // No object is the value itself: one is looked for that has all of its memory.
  for (const Row& row : rows_) {
    PyObject* const object = row.form.object();
    if (HoldsAll(object, extent)) return {Ref::Borrow(object)};
  }
  for (const Row& row : rows_) {
    Ref base = BaseOf(row.form.object());
    if (base && HoldsAll(base.get(), extent)) return {std::move(base)};
  }
  for (const Ref& kept : kept_) {
    const bool is_array = PyArray_Check(kept.get());
    if (is_array && HoldsAll(kept.get(), extent)) return {Ref::Borrow(kept.get()), false, true};
  }
  std::string names;
  for (const Row& row : rows_) {
    if (!Meet(ExtentOf(ArrayOf(row.form.object()).tensor()), extent)) continue;
    names += (names.empty() ? "" : " and ") + row.name;
  }
  if (names.empty()) return {};
  ThrowValueError(graph + " cannot be copied or pickled: the states " + names +
                  " share memory that is not of one array without gaps, so that copies would share "
                  "none. Try binding the array that all are views of.");
}

void HeldState::Refuse(const std::string& graph, const Row& row) {
  ThrowValueError(graph + ": the state " + row.name +
                  " was resized or given other memory or another form, but a graph keeps what it "
                  "was made with. Try making the graph again.");
}

}  // namespace anyop::python
