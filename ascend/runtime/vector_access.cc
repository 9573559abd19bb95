// SPDX-License-Identifier: Apache-2.0
// What a vector instruction with repeats touches.
#include <algorithm>
#include <cstring>

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
  int top;                // lanes of a repeat up to the last one that is set
  bool is_first;          // the mask has no holes
  bool is_dense;          // all operands are one run of elements
  bool are_rows;          // a repeat of every operand is one run
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

// The bits of an element of the result that are defined in all sources, a byte each.
template <class F>
std::uint64_t BitsOf(const Operand* operands, int count, const F& at, std::int64_t i) {
  std::uint64_t all = 0;
  for (std::uint32_t byte = 0; byte < operands[0].span.element; ++byte) {
    unsigned bits = 0xFF;
    for (int k = 1; k < count; ++k) bits &= Current().local->BitsOf(at(operands[k], i) + byte);
    all |= std::uint64_t{bits} << byte * 8;
  }
  return all;
}

// Marks elements [begin, end) of a repeat of the result.
void DefineElements(const Instruction& by, const Walk& walk, const Operand* operands, int count,
                    int repeat, std::int64_t begin, std::int64_t end) {
  CheckedBlock& b = Current();
  Bits& defined = b.local->defined();
  const auto at = [&](const Operand& o, std::int64_t i) {
    const std::int64_t offset = walk.shape.is_dense || walk.is_dense
                                    ? i * o.span.element
                                    : OffsetOf(o, repeat, static_cast<int>(i));
    return b.OffsetOf(o.span.at) + static_cast<std::uint32_t>(offset);
  };
  for (std::int64_t i = begin; i < end; ++i) {
    if (!walk.is_dense && !Has(walk.shape, static_cast<int>(i))) continue;
    int k = 1;
    while (k < count && defined.All(at(operands[k], i), operands[k].span.element)) ++k;
    if (k == count) {
      defined.Set(at(operands[0], i), operands[0].span.element, true);
    } else {
      const std::uint64_t bits = walk.shape.is_bitwise ? BitsOf(operands, count, at, i) : 0;
      const std::uint32_t to = at(operands[0], i);
      Undefine(by, to, operands[0].span.element, at(operands[k], i), operands[k].span.element);
      for (std::uint32_t byte = 0; bits && byte < operands[0].span.element; ++byte)
        b.local->SetBits(to + byte, bits >> byte * 8 & 0xFF);
    }
  }
}

// Runs that are defined as a whole are marked as a whole.
void DefineRun(const Instruction& by, const Walk& walk, const Operand* operands, int count,
               int repeat, std::int64_t lanes) {
  CheckedBlock& b = Current();
  Bits& defined = b.local->defined();
  const auto at = [&](const Operand& o) {
    const std::int64_t offset = walk.is_dense ? 0 : OffsetOf(o, repeat, 0);
    return b.OffsetOf(o.span.at) + static_cast<std::uint64_t>(offset);
  };
  for (int k = 1; k < count; ++k) {
    if (!defined.All(at(operands[k]), lanes * operands[k].span.element)) {
      DefineElements(by, walk, operands, count, repeat, 0, lanes);
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

// Takes the mark from results of groups with a lane that is not defined.
void UndefineGroups(const Instruction& by, const Walk& walk, const Operand* sources, int count,
                    const Groups& groups, int repeat, std::uint32_t row) {
  CheckedBlock& b = Current();
  Bits& defined = b.local->defined();
  for (int i = 0; i < walk.LanesOf(repeat); ++i) {
    if (!Has(walk.shape, i)) continue;
    for (int k = 0; k < count; ++k) {
      const std::uint32_t at = b.OffsetOf(sources[k].span.at) +
                               static_cast<std::uint32_t>(OffsetOf(sources[k], repeat, i));
      if (defined.All(at, sources[k].span.element)) continue;
      Undefine(by, row + static_cast<unsigned>(i / groups.lanes) * groups.result_bytes,
               groups.result_bytes, at, sources[k].span.element);
    }
  }
}

// Of a comparison: a bit is defined where its lane takes part and its sources are defined.
void DefineBits(const Instruction& by, const Walk& walk, const Operand* sources, int count,
                int repeat, std::uint32_t row) {
  CheckedBlock& b = Current();
  LocalMemory& local = *b.local;
  const int lanes = walk.LanesOf(repeat);
  for (int first = 0; first < lanes; first += 8) {
    const std::uint32_t to = row + static_cast<unsigned>(first / 8);
    unsigned bits = 0;
    std::uint32_t undefined = to;
    for (int i = first; i < std::min(lanes, first + 8); ++i) {
      if (!Has(walk.shape, i)) continue;
      bits |= 1u << i % 8;
      for (int k = 0; k < count; ++k) {
        const std::uint32_t at = b.OffsetOf(sources[k].span.at) +
                                 static_cast<std::uint32_t>(OffsetOf(sources[k], repeat, i));
        if (local.defined().All(at, sources[k].span.element)) continue;
        bits &= ~(1u << i % 8);
        undefined = at;
      }
    }
    if (bits == 0xFF) continue;
    local.Undefine(to, 1);
    const std::uint32_t origin = undefined == to ? 0 : local.OriginOf(undefined);
    local.SetOrigin(to, 1, origin ? origin : by.place);
    local.SetBits(to, bits);
  }
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
    DefineRun(by, walk, operands, count, 0, walk.elements);
    return true;
  }
  for (int r = 0; r < shape.repeats; ++r) {
    if (walk.are_rows) {
      DefineRun(by, walk, operands, count, r, walk.LanesOf(r));
    } else {
      DefineElements(by, walk, operands, count, r, 0, walk.LanesOf(r));
    }
  }
  return true;
}

bool CheckReduce(const Repeats& shape, const Operand* sources, int count, const Span& result,
                 const Groups& groups, Site site) {
  if (!CheckShape(shape, site)) return false;
  const Walk walk = WalkOf(shape, sources, count);
  bool is_inside = true;
  for (int k = 0; k < count; ++k) {
    const auto extent = static_cast<std::uint64_t>(ExtentOf(walk, sources[k]));
    is_inside = CheckSpan(sources[k].span, 0, extent, 32, site) && is_inside;
  }
  const auto bytes_of = [&](int repeat) {
    const int full = (walk.LanesOf(repeat) + groups.lanes - 1) / groups.lanes;
    return static_cast<std::uint64_t>(full) * groups.result_bytes;
  };
  const int last = shape.repeats - 1;
  const std::uint64_t extent = std::uint64_t{groups.repeat_bytes} * last + bytes_of(last);
  if (!CheckSpan(result, 0, extent, result.element, site) || !is_inside) return false;
  const Instruction by = Issue(kV, site);
  for (int k = 0; k < count; ++k) TouchOperand(walk, sources[k], kRead, by);
  Bits& defined = Current().local->defined();
  const std::uint32_t base = Current().OffsetOf(result.at);
  for (int r = 0; r < shape.repeats; ++r) {
    const std::uint32_t row = base + groups.repeat_bytes * static_cast<std::uint32_t>(r);
    bool all = true;
    for (int k = 0; k < count; ++k) {
      EachRun(walk, sources[k], r, [&](std::int64_t offset, int bytes) {
        const std::uint64_t at =
            Current().OffsetOf(sources[k].span.at) + static_cast<std::uint64_t>(offset);
        all = all && defined.All(at, static_cast<std::uint64_t>(bytes));
      });
    }
    TouchLocal(by, kWrite, row, static_cast<std::uint32_t>(bytes_of(r)));
    defined.Set(row, bytes_of(r), true);
    if (groups.are_bits && (!all || !walk.is_first || walk.LanesOf(r) % 8)) {
      DefineBits(by, walk, sources, count, r, row);
    } else if (!all) {
      UndefineGroups(by, walk, sources, count, groups, r, row);
    }
  }
  return true;
}

bool CheckOffsets(bool is_gather, const Span& many, const Span& one, const Span& offsets,
                  std::uint32_t base, std::uint32_t count, Site site) {
  const std::uint64_t bytes = std::uint64_t{count} * many.element;
  if (!CheckSpan(many, 0, bytes, 32, site) || !CheckSpan(offsets, 0, count * 4, 32, site)) {
    return false;
  }
  CheckedBlock& b = Current();
  Bits& defined = b.local->defined();
  const Instruction by = Issue(kV, site);
  Touch(by, kRead, offsets.at, count * 4);
  Touch(by, is_gather ? kWrite : kRead, many.at, bytes);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!defined.All(b.OffsetOf(offsets.at) + i * 4, 4)) {
      UndefinedRead(is_gather ? "an offset of Gather" : "an offset of Scatter", offsets.at + i * 4,
                    site);
      return false;
    }
    std::uint32_t offset;
    std::memcpy(&offset, offsets.at + i * 4, 4);
    if (offset % one.element) {
      Report("gather-offset", site, "byte offset %u is no multiple of the %u bytes of an element",
             offset, one.element);
    }
    const std::int64_t at = std::int64_t{base} + offset;
    if (!CheckSpan(one, at, one.element, 1, site)) return false;
    Touch(by, is_gather ? kRead : kWrite, one.at + at, one.element);
    const unsigned char* in_row = many.at + std::size_t{i} * many.element;
    const unsigned char* element = one.at + at;
    DefineFrom(by, is_gather ? in_row : element, many.element, is_gather ? element : in_row,
               many.element);
  }
  return true;
}

}  // namespace anyop_ascend
