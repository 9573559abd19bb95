// SPDX-License-Identifier: Apache-2.0
// A block that runs with checks: what each pipe knows to be complete, its flags, its data cache.
#pragma once
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "fibers.h"
#include "findings.h"
#include "local_memory.h"
#include "soc.h"

namespace anyop_ascend {

// A line of the data cache of scalar accesses to global memory.
constexpr std::uint64_t kCacheLine = 64;
struct CachedLine {
  std::uint64_t dirty = 0;   // bytes written that are not in memory yet
  std::uint32_t loaded = 0;  // when
  std::uint32_t place = 0;
};

// Bytes of a line that were written back, and the scalar unit's instruction that did so.
struct CleanedBytes {
  std::uint64_t bytes;
  std::uint32_t index;
};

// What was complete when a buffer of a queue was queued, and when it was freed.
struct BufferClocks {
  bool was_freed = false;
  Clock queued;
  Clock freed;
};

struct Flag {
  Pipe from;
  Pipe to;
  int id;
  std::uint32_t place;
  Clock clock;
};

struct CheckedBlock : FiberBlock {
  LocalMemory* local = nullptr;
  Clock known[kPipes];           // what is complete when the next instruction of a pipe starts
  std::uint32_t issued[kPipes];  // index of a pipe's last instruction
  std::uint64_t steps = 0;
  std::vector<BufferClocks> buffers;  // [queues][Queue::kMost]
  std::vector<Flag> flags;            // set and not waited for
  std::vector<std::uint32_t> others;  // [blocks][pipes]: known complete there; empty: nothing
  std::unordered_map<std::uint64_t, CachedLine> cache;
  std::unordered_map<std::uint64_t, std::vector<CleanedBytes>> cleaned;
  std::uint32_t extent = 0;        // looked up last
  std::uint32_t atomic_place = 0;  // of the last SetAtomicAdd and its like

  void Reset(std::uint32_t number, std::uint32_t blocks);
  std::uint32_t OffsetOf(const void* at) const {
    return static_cast<std::uint32_t>(static_cast<const unsigned char*>(at) - memory);
  }
};
inline CheckedBlock& Current() { return *static_cast<CheckedBlock*>(block); }

extern const char* const kPipeNames[];
std::string NameOfByte(std::uint32_t offset);  // of local memory: "UB[64]"

// Every call that a kernel makes of the dialect and that could be all there is of an endless loop.
void CountStep(CheckedBlock& block, Site at);

// Of all launches, as anyop_ascend_configure set them.
struct Options {
  bool is_strict = false;
  const Soc* soc = &kSocs[0];
  std::uint64_t max_steps = std::uint64_t{1} << 26;
  std::uint64_t seed = 0;
  std::uint64_t tiling_key = 0;
};
extern Options options;

// Marks bytes undefined that an instruction made of others, and keeps where that began: with these,
// or where they came from.
void Undefine(const Instruction& by, std::uint32_t to, std::uint64_t bytes, std::uint32_t from,
              std::uint64_t from_bytes);
// Records an access to local memory and reports what it conflicts with.
void TouchLocal(const Instruction& by, Access access, std::uint32_t offset, std::uint32_t bytes);
// Makes `pipe` wait for instruction `index` of `other`, as the vendor's compiler would.
void InsertOrder(CheckedBlock& block, Pipe other, std::uint32_t index, Pipe pipe);
void ReportRace(const char* kind, const Instruction& by, Access access, Pipe other,
                Access other_access, std::uint32_t there, const std::string& what);

}  // namespace anyop_ascend
