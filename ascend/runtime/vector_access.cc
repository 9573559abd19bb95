// SPDX-License-Identifier: Apache-2.0
// What a vector instruction with repeats touches.
#include <algorithm>

#include "checked_block.h"

namespace anyop_ascend {
namespace {

bool Has(const Repeats& shape, int lane) { return shape.mask[lane >> 6] >> (lane & 63) & 1; }

int Top(const Repeats& shape) {
  int top = shape.lanes;
  while (top > 0 && !Has(shape, top - 1)) --top;
  return top;
}

std::int64_t OffsetOf(const Operand& operand, int repeat, int lane) {
  const int per_block = 32 / operand.span.element;
  return std::int64_t{repeat} * operand.repeat_stride * 32 +
         std::int64_t{lane / per_block} * operand.block_stride * 32 +
         lane % per_block * operand.span.element;
}

// What does not change from repeat to repeat.
struct Walk {
  const Repeats& shape;
  int top;          // lanes of a repeat up to the last one that is set
  bool is_first;    // the mask has no holes
  bool is_dense;    // all operands are one run of elements
  bool are_rows;    // a repeat of every operand is one run
  std::int64_t elements;  // if dense

  int LanesOf(int repeat) const {
    if (shape.total < 0) return top;
    return static_cast<int>(
        std::min<std::int64_t>(shape.lanes, shape.total - std::int64_t{repeat} * shape.lanes));
  }
};

Walk WalkOf(const Repeats& shape, const Operand* operands, int count) {
  Walk walk{shape, 0, true, shape.is_dense, true, shape.total};
  if (shape.is_dense) return walk;
  walk.top = Top(shape);
  for (int i = 0; i < walk.top; ++i) walk.is_first = walk.is_first && Has(shape, i);
  walk.are_rows = walk.is_first;
  walk.is_dense = walk.is_first && walk.top == shape.lanes;
  for (int k = 0; k < count; ++k) {
    const Operand& o = operands[k];
    walk.are_rows = walk.are_rows && o.block_stride == 1;
    walk.is_dense = walk.is_dense && o.block_stride == 1 &&
                    o.repeat_stride * 32 == static_cast<unsigned>(shape.lanes) * o.span.element;
  }
  if (shape.total < 0) walk.elements = std::int64_t{shape.repeats} * shape.lanes;
  return walk;
}

// Bytes from the operand's begin to its last element.
std::int64_t ExtentOf(const Walk& walk, const Operand& o) {
  if (walk.is_dense) return walk.elements * o.span.element;
  const int last = walk.shape.repeats - 1;
  std::int64_t extent = OffsetOf(o, last, walk.LanesOf(last) - 1) + o.span.element;
  if (last > 0) {
    extent = std::max(extent, OffsetOf(o, last - 1, walk.LanesOf(last - 1) - 1) + o.span.element);
  }
  return extent;
}

// Runs of lanes of a repeat that lie side by side.
template <class F>
void EachRun(const Walk& walk, const Operand& o, int repeat, F visit) {
  const int lanes = walk.LanesOf(repeat), per_block = 32 / o.span.element;
  if (walk.are_rows) return visit(OffsetOf(o, repeat, 0), lanes * o.span.element);
  for (int i = 0; i < lanes;) {
    if (!Has(walk.shape, i)) {
      ++i;
      continue;
    }
    int end = i + 1;
    while (end < lanes && Has(walk.shape, end) && (o.block_stride == 1 || end % per_block)) ++end;
    visit(OffsetOf(o, repeat, i), (end - i) * o.span.element);
    i = end;
  }
}

void TouchOperand(const Walk& walk, const Operand& o, Access access, const Instruction& by) {
  const std::uint32_t base = Current().OffsetOf(o.span.at);
  if (walk.is_dense) {
    TouchLocal(by, access, base, static_cast<std::uint32_t>(walk.elements * o.span.element));
    return;
  }
  for (int r = 0; r < walk.shape.repeats; ++r) {
    EachRun(walk, o, r, [&](std::int64_t offset, int bytes) {
      TouchLocal(by, access, base + static_cast<std::uint32_t>(offset),
                 static_cast<std::uint32_t>(bytes));
    });
  }
}

// Marks elements [begin, end) of a repeat of the result.
void DefineElements(const Walk& walk, const Operand* operands, int count, int repeat,
                    std::int64_t begin, std::int64_t end) {
  CheckedBlock& b = Current();
  Bits& defined = b.local->defined();
  const auto at = [&](const Operand& o, std::int64_t i) {
    const std::int64_t offset = walk.shape.is_dense || walk.is_dense
                                    ? i * o.span.element
                                    : OffsetOf(o, repeat, static_cast<int>(i));
    return b.OffsetOf(o.span.at) + static_cast<std::uint64_t>(offset);
  };
  for (std::int64_t i = begin; i < end; ++i) {
    if (!walk.is_dense && !Has(walk.shape, static_cast<int>(i))) continue;
    bool all = true;
    for (int k = 1; k < count && all; ++k)
      all = defined.All(at(operands[k], i), operands[k].span.element);
    defined.Set(at(operands[0], i), operands[0].span.element, all);
  }
}

// Runs that are defined as a whole are marked as a whole.
void DefineRun(const Walk& walk, const Operand* operands, int count, int repeat,
               std::int64_t lanes) {
  CheckedBlock& b = Current();
  Bits& defined = b.local->defined();
  const auto at = [&](const Operand& o) {
    const std::int64_t offset = walk.is_dense ? 0 : OffsetOf(o, repeat, 0);
    return b.OffsetOf(o.span.at) + static_cast<std::uint64_t>(offset);
  };
  for (int k = 1; k < count; ++k) {
    if (!defined.All(at(operands[k]), lanes * operands[k].span.element)) {
      DefineElements(walk, operands, count, repeat, 0, lanes);
      return;
    }
  }
  defined.Set(at(operands[0]), lanes * operands[0].span.element, true);
}

void CheckOverlap(const Operand& result, std::int64_t result_bytes, const Operand& source,
                  std::int64_t source_bytes, Site site) {
  const std::uint32_t to = Current().OffsetOf(result.span.at);
  const std::uint32_t from = Current().OffsetOf(source.span.at);
  if (to == from && (result.span.element == source.span.element || result_bytes == source_bytes)) {
    return;
  }
  if (to >= from + source_bytes || from >= to + result_bytes) return;
  Report("overlap", site,
         "the result, bytes %u to %lld of UB, overlaps an operand, bytes %u to %lld, in part",
         to % kMemorySpan, static_cast<long long>(to % kMemorySpan + result_bytes),
         from % kMemorySpan, static_cast<long long>(from % kMemorySpan + source_bytes));
}

bool CheckShape(const Repeats& shape, Site site) {
  if (shape.is_dense) {
    if (shape.total < 0) {
      Report("count", site, "a count of %lld elements", static_cast<long long>(shape.total));
    }
    return shape.total > 0;
  }
  if (shape.repeats < 0 || (shape.repeats > 255 && shape.total < 0)) {
    Report("repeat", site, "%d repeats, but an instruction makes 0 to 255", shape.repeats);
  }
  return shape.repeats > 0 && Top(shape) > 0;
}

}  // namespace

bool CheckVector(const Repeats& shape, const Operand* operands, int count, Site site) {
  if (!CheckShape(shape, site)) return false;
  const Walk walk = WalkOf(shape, operands, count);
  std::int64_t extents[4];
  bool is_inside = true;
  for (int k = 0; k < count; ++k) {
    extents[k] = ExtentOf(walk, operands[k]);
    is_inside = CheckSpan(operands[k].span, 0, static_cast<std::uint64_t>(extents[k]), 32, site) &&
                is_inside;
  }
  if (!is_inside) return false;
  const Instruction by = Issue(kV, site);
  for (int k = 1; k < count; ++k) {
    CheckOverlap(operands[0], extents[0], operands[k], extents[k], site);
    TouchOperand(walk, operands[k], kRead, by);
  }
  TouchOperand(walk, operands[0], kWrite, by);
  if (walk.is_dense) {
    DefineRun(walk, operands, count, 0, walk.elements);
    return true;
  }
  for (int r = 0; r < shape.repeats; ++r) {
    if (walk.are_rows) {
      DefineRun(walk, operands, count, r, walk.LanesOf(r));
    } else {
      DefineElements(walk, operands, count, r, 0, walk.LanesOf(r));
    }
  }
  return true;
}

}  // namespace anyop_ascend
