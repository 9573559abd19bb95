// SPDX-License-Identifier: Apache-2.0
#include "graph/specialise/row_runs.h"

#include <algorithm>
#include <utility>

#include "graph/ir/alias.h"
#include "runtime/registry/operator.h"

namespace anyop {
namespace {

constexpr std::size_t kMostCalls = 32;  // of a run

const Form& FormOf(const Specialisation& s, std::size_t call) {
  const Plan& plan = *s.calls[call].plan;
  return plan.op->contract->forms[std::size_t(plan.form)];
}

// A region calls kernels and nothing else: no checks, no copies. It cuts single tensors, no
// lists.
bool MayJoin(const Specialisation& s, std::size_t call) {
  const PlannedCall& c = s.calls[call];
  return c.mode == PlannedCall::kDirect && c.plan->op->data->rowwise && !c.plan->has_lists &&
         c.plan->bindings.n_lead > 0;
}

// The rows by which a call likes to be cut: the dimensions of `...`. An elementwise call, whose
// tensors have no dimension behind `...`, leaves out the last one, so that it is cut in the same
// rows as a neighbour of [..., d].
std::int64_t RowsOf(const Specialisation& s, std::size_t call) {
  if (!MayJoin(s, call)) return 0;
  const Bindings& b = s.calls[call].plan->bindings;
  const Form& f = FormOf(s, call);
  const auto ends = [](const auto& p) { return p.tensor.has_dots && p.tensor.dims.empty(); };
  const bool has_open = std::any_of(f.params.begin(), f.params.end(), ends) ||
                        std::any_of(f.results.begin(), f.results.end(), ends);
  const bool has_closed = std::any_of(f.results.begin(), f.results.end(), [](const Result& r) {
    return r.tensor.has_dots && !r.tensor.dims.empty();
  });
  const int n = has_open && !has_closed && b.n_lead > 1 ? b.n_lead - 1 : b.n_lead;
  std::int64_t rows = 1;
  for (int i = 0; i < n; ++i) rows *= b.lead[i];
  return rows;
}

// Whether the first dimensions of a layout are `rows` rows, evenly apart and without overlap: a
// block is then a pointer that moves by whole pitches.
bool Cut(const Layout& l, int n_trailing, std::int64_t rows, Touch* t) {
  std::int64_t product = 1, pitch = 0;
  while (t->lead < l.rank - n_trailing && (t->lead == 0 || product != rows)) {
    const std::int64_t size = l.shape[t->lead], stride = l.strides[t->lead++];
    if (size == 1) continue;
    if (pitch && pitch != size * stride) return false;
    product *= size;
    pitch = stride;
  }
  if (product != rows || t->lead == 0) return false;
  std::int64_t extent = 1;
  for (int d = t->lead; d < l.rank; ++d) {
    if (l.shape[d] == 0 || l.strides[d] < 0) return false;
    extent += (l.shape[d] - 1) * l.strides[d];
  }
  t->pitch_bytes = pitch * Bytes(l.dtype);
  t->row_bytes = extent * Bytes(l.dtype);
  return extent <= pitch;
}

bool AddTouch(const Specialisation& s, int value, int place, bool is_written,
              const TensorType& type, std::int64_t rows, std::vector<Touch>* touches) {
  Touch t{value, place, is_written, type.has_dots};
  if (!t.is_row && is_written) return false;
  if (t.is_row && !Cut(s.layouts[std::size_t(value)], int(type.dims.size()), rows, &t)) {
    return false;
  }
  touches->push_back(t);
  return true;
}

// False where the call takes no such rows.
bool Describe(const Specialisation& s, std::size_t call, std::int64_t rows,
              std::vector<Touch>* touches) {
  if (!MayJoin(s, call)) return false;
  const GraphNode& n = s.graph->nodes[std::size_t(s.calls[call].node)];
  const Form& f = FormOf(s, call);
  for (std::size_t i = 0; i < n.arguments.size(); ++i) {
    const GraphArgument& a = n.arguments[i];
    if (a.kind == GraphArgument::kValues) return false;
    if (a.kind != GraphArgument::kValue || !s.tensor_at[std::size_t(a.values[0])]) continue;
    const Param& p = f.params[i];
    if (!AddTouch(s, a.values[0], int(i), p.is_mut, p.tensor, rows, touches)) return false;
  }
  for (std::size_t r = 0; r < n.results.size(); ++r) {
    if (n.results[r] < 0) continue;
    const int place = n.op->n_params + int(r);
    if (!AddTouch(s, n.results[r], place, true, f.results[r].tensor, rows, touches)) return false;
  }
  return true;
}

// What the calls of a run do to memory. Blocks run in any order, so that memory that is written
// must be cut in the same rows by all of them.
class Accesses {
 public:
  explicit Accesses(const Specialisation& s) : s_(s) {}

  void StartRun() { ++run_; }
  // Adds the accesses of a call; undone where they do not fit the run, the last one first, since
  // two of them may be of one class.
  bool Add(const std::vector<Touch>& touches) {
    std::vector<std::pair<std::size_t, ClassAccess>> before;
    bool fits = true;
    for (const Touch& t : touches) {
      const std::size_t c = std::size_t(class_of(t.value));
      before.emplace_back(c, accesses_[c]);
      fits = fits && Add(t, &accesses_[c]);
    }
    while (!fits && !before.empty()) {
      accesses_[before.back().first] = before.back().second;
      before.pop_back();
    }
    return fits;
  }

 private:
  // The accesses to one class of memory.
  struct ClassAccess {
    int run = -1;  // the one whose accesses these are; of an earlier one they count as none
    int root = -1;
    std::int64_t pitch_bytes = 0;  // 0: no rows yet
    bool is_uniform = true, has_rows = false, has_whole = false, is_written = false;
  };

  bool Add(const Touch& t, ClassAccess* access) const {
    ClassAccess& a = *access;
    const int root = s_.graph->Root(t.value);
    if (a.run != run_) a = {run_, root};
    a.is_written |= t.is_written;
    (t.is_row ? a.has_rows : a.has_whole) = true;
    a.is_uniform &= a.root == root;
    if (t.is_row) {
      const std::int64_t offset = s_.layouts[std::size_t(t.value)].offset;
      a.is_uniform &= (!a.pitch_bytes || a.pitch_bytes == t.pitch_bytes) &&
                      offset + t.row_bytes <= t.pitch_bytes;
      a.pitch_bytes = t.pitch_bytes;
    }
    return !a.is_written || (a.is_uniform && !a.has_whole);
  }
  int class_of(int value) {
    if (classes_.empty()) {
      classes_ = AliasClasses(*s_.graph);
      accesses_.resize(s_.graph->values.size());
    }
    return classes_[std::size_t(value)];
  }

  const Specialisation& s_;
  std::vector<int> classes_;
  std::vector<ClassAccess> accesses_;  // by class
  int run_ = 0;                        // that is looked at
};

}  // namespace

std::vector<RowRun> FindRowRuns(const Specialisation& s) {
  std::vector<RowRun> runs;
  Accesses accesses(s);
  for (std::size_t i = 0; i + 1 < s.calls.size();) {
    RowRun run{int(i), RowsOf(s, i), {}};
    accesses.StartRun();
    std::size_t end = i;
    while (run.rows > 1 && end < s.calls.size() && end < i + kMostCalls) {
      std::vector<Touch> touches;
      if (!Describe(s, end, run.rows, &touches) || !accesses.Add(touches)) break;
      run.calls.push_back(std::move(touches));
      ++end;
    }
    if (end >= i + 2) runs.push_back(std::move(run));
    i = std::max(end, i + 1);
  }
  return runs;
}

}  // namespace anyop
