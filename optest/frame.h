// SPDX-License-Identifier: Apache-2.0
// The frame of a call, with every tensor in guarded memory.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "optest/call.h"
#include "optest/memory.h"

namespace anyop::optest {

// How one run of a call lies in memory.
struct Arrangement {
  // Of parameter or result i of the frame. Empty: dense.
  std::function<Layout(int)> layout;
  // For each result the parameter whose memory it takes (`over`); -1 or absent: its own.
  std::vector<int> over;
  std::uint64_t declined = 0;     // results that the caller does not want, by bit
  unsigned char poison = kGuard;  // what results and workspace hold before the run
};
// A layout for each tensor, drawn.
Arrangement MixedArrangement(Call& call);

class Frame {
 public:
  // The arguments of a call; results are absent.
  explicit Frame(const Operator& op, const std::vector<Argument>& arguments,
                 const Arrangement& arrangement = {});

  // Makes memory for a result, unless it is declined.
  void AddResult(int result, DType dtype, const std::vector<std::int64_t>& shape,
                 const Arrangement& arrangement);

  // Whether a result or a `mut` tensor has an element.
  bool HasSomethingToWrite() const;
  anyop_value* values() { return values_.data(); }
  // Results and `mut` tensors, by name; an element of a list as "name[2]".
  Results Read() const;
  // Of a result or `mut` tensor that lies at the end of pages; else none.
  Pages PagesOf(const std::string& name) const;
  // What was written, or read outside of all tensors, but must not be. may_write: false for a call
  // that was refused.
  Defect FindDefect(bool may_write) const;
  // For the report of a crash: the tensors, from the time being on.
  void NoteMemories() const;

 private:
  struct Slot {
    int index;  // in the frame
    std::string name;
    std::shared_ptr<Memory> memory;
    bool is_written;
    bool is_shared = false;  // a result took its memory
  };

  void SetArgument(int index, const Argument& argument, const Arrangement& arrangement);
  const DLTensor* AddTensor(int index, const std::string& name, const Array& array, Layout layout);
  std::string_view KindOf(const Slot& slot) const;
  Layout LayoutOf(int index, const Arrangement& arrangement) const;

  const Operator& op_;
  const Form& form_;
  std::vector<anyop_value> values_;
  std::vector<Slot> slots_;
  std::deque<std::vector<const DLTensor*>> lists_;
  std::deque<Argument> kept_;  // words and lists of numbers that values point into
};

}  // namespace anyop::optest
