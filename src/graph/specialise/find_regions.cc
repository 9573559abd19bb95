// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "graph/ir/alias.h"
#include "graph/ir/frame.h"
#include "graph/specialise/region.h"
#include "graph/specialise/specialisation.h"
#include "platform/byte_count.h"
#include "platform/cpu.h"
#include "platform/error.h"
#include "platform/threads.h"
#include "runtime/plan/thread_state.h"
#include "runtime/run/call.h"

namespace anyop {
namespace {

constexpr double kWorthwhileNs = 20000;  // less is not cut
constexpr double kForcedNs = 200000;     // regions of given blocks (tests): all threads take part
constexpr double kBlockNs = 2000;        // the least work of a block
constexpr std::size_t kMostCalls = 32;   // of a region
constexpr int kBlocksPerThread = 8;      // at least, so that claims even out noise
constexpr std::int64_t kUnknownL2 = 1 << 20;

// A tensor of a call: whole, or cut by rows.
struct Touch {
  int value, place;  // in the frame
  bool is_written, is_row;
  std::int64_t pitch_bytes = 0, row_bytes = 0;  // of a row tensor
  int lead = 0;                                 // dimensions that are rows
};

class RegionFinder {
 public:
  RegionFinder(Specialisation* s, std::int64_t block_rows)
      : s_(*s), graph_(*s->graph), block_rows_(block_rows) {}

  void Run() {
    for (std::size_t i = 0; i + 1 < s_.calls.size();) {
      const std::int64_t rows = RowsOf(i);
      std::vector<std::vector<Touch>> members;
      ++region_;
      std::size_t end = i;
      while (rows > 1 && end < s_.calls.size() && end < i + kMostCalls) {
        std::vector<Touch> touches;
        if (!Describe(end, rows, &touches) || !Joins(touches)) break;
        members.push_back(std::move(touches));
        ++end;
      }
      if (end >= i + 2) Make(int(i), rows, members);
      i = std::max(end, i + 1);
    }
  }

 private:
  const GraphNode& node(std::size_t call) const {
    return graph_.nodes[std::size_t(s_.calls[call].node)];
  }
  const Form& form(std::size_t call) const {
    const Plan& plan = *s_.calls[call].plan;
    return plan.op->contract->forms[std::size_t(plan.form)];
  }
  // A region calls kernels and nothing else: no checks, no copies. It cuts single tensors, no
  // lists.
  bool MayJoin(std::size_t call) const {
    const PlannedCall& c = s_.calls[call];
    return c.mode == PlannedCall::kDirect && c.plan->op->data->rowwise && !c.plan->has_lists &&
           c.plan->bindings.n_lead > 0;
  }

  // The rows by which a call likes to be cut: the dimensions of `...`. An elementwise call, whose
  // tensors have no dimension behind `...`, leaves out the last one, so that it is cut in the same
  // rows as a neighbour of [..., d].
  std::int64_t RowsOf(std::size_t call) const {
    if (!MayJoin(call)) return 0;
    const Bindings& b = s_.calls[call].plan->bindings;
    const Form& f = form(call);
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

  bool Describe(std::size_t call, std::int64_t rows, std::vector<Touch>* touches) const {
    if (!MayJoin(call)) return false;
    const GraphNode& n = node(call);
    const Form& f = form(call);
    for (std::size_t i = 0; i < n.arguments.size(); ++i) {
      const GraphArgument& a = n.arguments[i];
      if (a.kind == GraphArgument::kValues) return false;
      if (a.kind != GraphArgument::kValue || !s_.tensor_at[std::size_t(a.values[0])]) continue;
      const Param& p = f.params[i];
      if (!AddTouch(a.values[0], int(i), p.is_mut, p.tensor, rows, touches)) return false;
    }
    for (std::size_t r = 0; r < n.results.size(); ++r) {
      if (n.results[r] < 0) continue;
      const int place = n.op->n_params + int(r);
      if (!AddTouch(n.results[r], place, true, f.results[r].tensor, rows, touches)) return false;
    }
    return true;
  }

  bool AddTouch(int value, int place, bool is_written, const TensorType& type, std::int64_t rows,
                std::vector<Touch>* touches) const {
    Touch t{value, place, is_written, type.has_dots};
    if (!t.is_row && is_written) return false;
    if (t.is_row && !Cut(s_.layouts[std::size_t(value)], int(type.dims.size()), rows, &t)) {
      return false;
    }
    touches->push_back(t);
    return true;
  }

  // Whether the first dimensions of a layout are `rows` rows, evenly apart and without overlap: a
  // block is then a pointer that moves by whole pitches.
  static bool Cut(const Layout& l, int n_trailing, std::int64_t rows, Touch* t) {
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

  // The accesses to one class of memory by the calls of a region. Blocks run in any order, so that
  // memory that is written must be cut in the same rows by all of them.
  struct ClassAccess {
    int region = -1;  // the one whose accesses these are; of an earlier one they count as none
    int root = -1;
    std::int64_t pitch_bytes = 0;  // 0: no rows yet
    bool is_uniform = true, has_rows = false, has_whole = false, is_written = false;
  };

  // Adds the accesses of a call; undone where they do not fit the region, the last one first, since
  // two of them may be of one class.
  bool Joins(const std::vector<Touch>& touches) {
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
  bool Add(const Touch& t, ClassAccess* access) const {
    ClassAccess& a = *access;
    const int root = graph_.Root(t.value);
    if (a.region != region_) a = {region_, root};
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
      classes_ = AliasClasses(graph_);
      accesses_.resize(graph_.values.size());
    }
    return classes_[std::size_t(value)];
  }

  void Make(int first, std::int64_t rows, const std::vector<std::vector<Touch>>& members) {
    Region region;
    region.first = first;
    region.last = first + int(members.size()) - 1;
    region.rows = rows;
    for (int i = region.first; i <= region.last; ++i) {
      region.estimated_ns += s_.calls[std::size_t(i)].plan->estimated_ns;
    }
    if (!block_rows_ && region.estimated_ns < kWorthwhileNs) return;
    const int most = State().scope.threads ? State().scope.threads : NumThreads();
    region.threads = int(std::min<std::int64_t>(most, rows));
    AddTensors(members, &region);
    if (!ChooseBlock(members, &region)) return;
    for (RegionTensor& t : region.tensors) t.shape[0] = region.block;
    if (!AddPlans(members, &region)) return;
    for (int i = region.first; i <= region.last; ++i) {
      s_.calls[std::size_t(i)].region = int(s_.regions.size());
    }
    s_.regions.push_back(std::move(region));
  }

  void AddTensors(const std::vector<std::vector<Touch>>& members, Region* region) const {
    for (std::size_t k = 0; k < members.size(); ++k) {
      RegionCall call;
      call.call = region->first + int(k);
      const Operator& op = *node(std::size_t(call.call)).op;
      call.frame = region->frame_values;
      region->frame_values += std::size_t(op.n_params + op.n_results);
      call.tensors.assign(std::size_t(op.n_params + op.n_results), -1);
      for (const Touch& t : members[k]) {
        if (t.is_row) call.tensors[std::size_t(t.place)] = TensorNumber(t, region);
      }
      region->calls.push_back(std::move(call));
    }
  }
  int TensorNumber(const Touch& t, Region* region) const {
    for (std::size_t k = 0; k < region->tensors.size(); ++k) {
      if (region->tensors[k].value == t.value) return int(k);
    }
    const Layout& l = s_.layouts[std::size_t(t.value)];
    RegionTensor made;
    made.value = t.value;
    made.pitch_bytes = t.pitch_bytes;
    made.rank = l.rank - t.lead + 1;
    made.strides[0] = t.pitch_bytes / Bytes(l.dtype);
    std::int64_t dense = 1;
    for (int d = l.rank - 1; d >= t.lead; --d) {
      made.shape[d - t.lead + 1] = l.shape[d];
      made.strides[d - t.lead + 1] = l.strides[d];
      made.is_contiguous &= l.shape[d] == 1 || l.strides[d] == dense;
      dense *= l.shape[d];
    }
    made.is_contiguous &= made.strides[0] == dense;
    region->tensors.push_back(made);
    return int(region->tensors.size()) - 1;
  }

  // Calls on tensors that fit the last cache are as fast one by one. Measured on six calls with 32
  // MiB of it: on tensors of 4 MiB blocks take 1.05 times as long, on 64 MiB half as long.
  static std::int64_t OuterCache() {
    return Caches().l3 ? Caches().l3 : 8 * (Caches().l2 ? Caches().l2 : kUnknownL2);
  }

  // Chooses the number of rows of a block: its rows stay in the second cache beside the tensors
  // that are not cut. False where cutting does not pay.
  bool ChooseBlock(const std::vector<std::vector<Touch>>& members, Region* region) const {
    if (block_rows_) {
      region->block = std::min(block_rows_, region->rows);
      region->estimated_ns = std::max(region->estimated_ns, kForcedNs);
      return region->block < region->rows;
    }
    std::int64_t whole_bytes = 0, row_bytes = 0;
    for (const auto& touches : members) {
      for (const Touch& t : touches) {
        if (t.is_row) continue;
        whole_bytes = AddBytes(whole_bytes, s_.layouts[std::size_t(t.value)].bytes());
      }
    }
    for (const RegionTensor& t : region->tensors) row_bytes = AddBytes(row_bytes, t.pitch_bytes);
    const std::int64_t l2 = Caches().l2 ? Caches().l2 : kUnknownL2;
    if (whole_bytes > l2 / 4 || MultiplyBytes(region->rows, row_bytes) <= OuterCache())
      return false;
    const double row_ns = region->estimated_ns / double(region->rows);
    const std::int64_t fits =
        std::max<std::int64_t>(l2 / 4 / std::max<std::int64_t>(row_bytes, 1), 1);
    const std::int64_t shared = (region->rows + region->threads * kBlocksPerThread - 1) /
                                (region->threads * kBlocksPerThread);
    const std::int64_t least = std::int64_t(kBlockNs / row_ns) + 1;
    region->block = std::max(std::min(fits, shared), std::min(least, fits));
    return region->block < region->rows;
  }

  // Every call takes a block with the kernel that takes all rows, or there is no region: another
  // kernel may round differently, and regions change no bit.
  bool AddPlans(const std::vector<std::vector<Touch>>& members, Region* region) {
    std::vector<DLTensor> cut;
    cut.reserve(region->tensors.size());
    for (RegionTensor& t : region->tensors) {
      DLTensor& made = cut.emplace_back(s_.tensors[std::size_t(t.value)]);
      made.ndim = t.rank;
      made.shape = t.shape;
      made.strides = t.is_contiguous ? nullptr : t.strides;
    }
    if (at_.empty()) at_ = s_.tensor_at;
    for (std::size_t k = 0; k < cut.size(); ++k) {
      at_[std::size_t(region->tensors[k].value)] = &cut[k];
    }
    bool is_right = true;
    const std::int64_t rest = region->rows % region->block;
    for (std::size_t k = 0; k < members.size() && is_right; ++k) {
      is_right = AddPlan(region->calls[k].call, &region->calls[k].block);
    }
    for (RegionTensor& t : region->tensors) t.shape[0] = rest;
    for (std::size_t k = 0; k < members.size() && is_right && rest; ++k) {
      is_right = AddPlan(region->calls[k].call, &region->calls[k].rest);
    }
    for (RegionTensor& t : region->tensors) {
      t.shape[0] = region->block;
      at_[std::size_t(t.value)] = s_.tensor_at[std::size_t(t.value)];
    }
    if (!is_right) ReleasePlans(*region);
    return is_right;
  }

  bool AddPlan(int call, Plan** plan) {
    const GraphNode& n = node(std::size_t(call));
    anyop_value frame[kMaxParams + kMaxResults];
    FillFrame({graph_, s_.symbols, at_, s_.scalars}, n, frame, nullptr);
    const Plan& whole = *s_.calls[std::size_t(call)].plan;
    try {
      const HeldPlan made = GetPlan(*n.op, frame);
      if (made->kernel != whole.kernel || made->copied || made->is_empty) return false;
      Acquire(made.get());
      *plan = made.get();
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  Specialisation& s_;
  const Graph& graph_;
  const std::int64_t block_rows_;
  std::vector<int> classes_;
  std::vector<ClassAccess> accesses_;  // by class
  int region_ = 0;                     // that is looked at
  std::vector<const DLTensor*> at_;    // by value, cut where the region cuts
};

}  // namespace

void ReleasePlans(Region& region) {
  for (RegionCall& c : region.calls) {
    Release(c.block);
    Release(c.rest);
    c.block = c.rest = nullptr;
  }
}

void FindRegions(Specialisation* s, std::int64_t block_rows) { RegionFinder(s, block_rows).Run(); }

}  // namespace anyop
