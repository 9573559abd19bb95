// SPDX-License-Identifier: Apache-2.0
// The arrays and tensors whose memory a graph uses: whether they still have it, in the same form. A
// reference keeps each alive; but its host may give it other memory, or another dtype or shape.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "bindings/host/host.h"
#include "graph/ir/graph.h"
#include "runtime/memory/overlap.h"

namespace anyop::python {

class HeldState {
 public:
  // name: of the graph's value. object: an array or tensor.
  void Add(const std::string& name, PyObject* object);
  void Add(const HeldState& other);
  // Keeps an object alive that is no memory of the graph.
  void Keep(PyObject* object) { kept_.push_back(Ref::Borrow(object)); }
  // Forgets objects that are no state of the graph, and learns which of the others it writes.
  void KeepOnly(const Graph& graph);
  // Throws a ValueError where memory was exchanged, or has another form. To be called before any of
  // it is read. Cost: some ns each.
  void Check(const std::string& graph) const {
    for (const Row& row : rows_) {
      if (!row.host->Holds(row.memory) || !row.form.IsOf(*row.host)) Refuse(graph, row);
    }
  }
  // The object that all of a value's memory belongs to, and whether the value is that very tensor.
  // A view that nobody but graphs has (cache[0], made in the traced function) goes as part of its
  // base. Null: the graph has the memory for itself. Throws a ValueError where an object has some
  // of it and none has all. graph: its name. copied: null or a list of what else is copied, where a
  // base is found that torch does not tell: which tensor another is the detach() of.
  struct Holder {
    Ref object;
    bool is_whole = false, is_kept = false;
  };
  Holder HolderOf(const std::string& graph, const Array& value, PyObject* copied) const;
  // The object that is this very tensor, borrowed; null where there is none.
  PyObject* ObjectOf(const Array& value) const;
  // Counts a call as a write of each tensor that the graph writes: torch's version counter.
  void CountWrites() const {
    for (const Written& w : written_) w.host->CountWrite(w.tensor.get());
  }

 private:
  // The dtype, sizes and strides of an object. One that its host gives no view of must stay so.
  class Form {
   public:
    Form(const Host& host, PyObject* object);
    bool IsOf(const Host& host) const;
    PyObject* object() const { return static_cast<PyObject*>(object_.get()); }

   private:
    std::shared_ptr<void> object_;
    bool is_known_;
    DLDataType dtype_{};
    std::vector<std::int64_t> sizes_;  // then the strides
  };
  struct Row {
    std::string name;
    const Host* host;
    HostMemory memory;
    Form form;
  };
  [[noreturn]] static void Refuse(const std::string& graph, const Row& row);
  // Whether anybody but graphs has the object of a row.
  bool IsHeldElsewhere(const Row& row) const;

  std::vector<Row> rows_;
  struct Written {
    const Host* host;
    Ref tensor;
  };
  std::vector<Ref> kept_;
  std::vector<Written> written_;
};

// The memory of an object that a graph may be bound to, whether gradients are on now or not.
Array ArrayOf(PyObject* object);
// All of an object's memory, as bytes; none where it has gaps.
Array BytesOf(PyObject* object);

}  // namespace anyop::python
