// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "ops/common/elementwise/elementwise.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
namespace {

struct Use {
  std::int64_t next;    // of the same id; -1: none
  std::int64_t offset;  // of the row of dy
};

template <class N>
struct UsesWorkspace : Workspace<N> {
  Part<std::int64_t, N> first;  // [v]: of each id; -1: none
  Part<Use, N> uses;            // [ids]
  constexpr UsesWorkspace(N v, N ids)
      : first(this->template Add<std::int64_t>(v)), uses(this->template Add<Use>(ids)) {}
};
constexpr SizeText BackwardBytes() { return UsesWorkspace<SizeText>("v", "size(ids)").bytes(); }

// The uses of every id, in rising order, as lists: a sum over them is in that order on any number
// of threads.
class Uses {
 public:
  Uses(const Context& ctx, const Tensor& dy, const Tensor& ids, std::int64_t v,
       std::int64_t padding_idx) {
    const UsesWorkspace<std::int64_t> parts(v, ids.size());
    const Placed placed(ctx, parts);
    first_ = placed[parts.first];
    uses_ = placed[parts.uses];
    std::memset(first_, 0xff, std::size_t(v) * 8);  // -1
    const std::int64_t per_row = ids.row_size();
    for (std::int64_t i = ids.size() - 1; i >= 0; --i) {
      const std::int64_t id = ReadIndex(ids, ids.row_offset(i / per_row) + i % per_row);
      if (id < 0 || id == padding_idx) continue;
      uses_[i] = {first_[id], dy.row_offset(i)};
      first_[id] = i;
    }
  }

  bool has(std::int64_t id) const { return first_[id] >= 0; }

  // to[d] = the sum of the rows of dy that use the id.
  template <class T>
  void Sum(std::int64_t id, const T* dy, T* to, std::int64_t d) const {
    const Use first = uses_[first_[id]];
    ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
      F32 sum[block], more[block];
      LoadBlock(sum, dy + first.offset + i, count);
      for (std::int64_t use = first.next; use >= 0; use = uses_[use].next) {
        LoadBlock(more, dy + uses_[use].offset + i, count);
        for (int k = 0; k < block; ++k) sum[k] += more[k];
      }
      StoreBlock(to + i, sum, count);
    });
  }

 private:
  std::int64_t* first_;  // [v]
  Use* uses_;            // [ids]
};

void ClearRows(const Tensor& y, std::int64_t begin, std::int64_t end) {
  const std::int64_t element = Bytes(y.type()), row = y.dim(1) * element;
  char* base = y.base<char>();
  if (y.stride(0) == y.dim(1)) {
    std::memset(base + begin * row, 0, std::size_t((end - begin) * row));
    return;
  }
  for (std::int64_t r = begin; r < end; ++r) {
    std::memset(base + r * y.stride(0) * element, 0, std::size_t(row));
  }
}

void RunBackward(const Context& ctx, const Tensor& dy, const Tensor& ids, const Tensor& weight,
                 std::int64_t padding_idx, const Tensor* dweight) {
  if (!dweight) return;
  const std::int64_t v = weight.dim(0), d = weight.dim(1);
  const Uses uses(ctx, dy, ids, v, padding_idx);
  const std::int64_t row_bytes = d * Bytes(weight.type());
  VisitFloat(weight.type(), [&](auto zero) {
    using T = decltype(zero);
    ctx.ParallelFor(v, 40000 / (row_bytes + 20) + 1, [&](std::int64_t begin, std::int64_t end) {
      // All of it, though some is written again: one large memset bypasses the caches.
      ClearRows(*dweight, begin, end);
      for (std::int64_t id = begin; id < end; ++id) {
        if (uses.has(id)) uses.Sum(id, dy.base<const T>(), dweight->row<T>(id).data(), d);
      }
    });
  });
}

}  // namespace

ANYOP_KERNEL(embedding_backward){.workspace = kWorkspace<&BackwardBytes>,
                                 .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
