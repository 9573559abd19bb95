// SPDX-License-Identifier: Apache-2.0
// Global memory: the extents that kernels may touch, and which blocks touched what last.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bits.h"
#include "checked_block.h"

namespace anyop_ascend {

// Of 32 bytes with a bit for each, or of a whole cell: an access by a pipe of a block.
struct GlobalRecord {
  std::uint32_t mask = 0;
  std::uint32_t index = 0;
  std::uint32_t place = 0;
  std::uint32_t moment = 0;  // of the launch
  std::uint16_t block = 0;
  std::uint8_t pipe = 0;
  bool is_atomic = false;
};
// All accesses that a later one can be in no order with: few as a rule, and the others elsewhere.
struct GlobalGranule {
  GlobalRecord writes[2];
  GlobalRecord reads[3];
  std::uint32_t others = 0;  // number of its OtherRecords + 1; 0: it has none
};
struct OtherRecords {
  std::vector<GlobalRecord> writes;
  std::vector<GlobalRecord> reads;
};
OtherRecords& OthersOf(const GlobalGranule& granule);
template <class F>
void EachWrite(const GlobalGranule& granule, const F& visit) {
  for (const GlobalRecord& record : granule.writes) visit(record);
  if (!granule.others) return;
  for (const GlobalRecord& record : OthersOf(granule).writes) visit(record);
}
struct GlobalCell {
  GlobalGranule whole;
  std::uint32_t split = 0;  // number of its granules + 1; 0: it is whole
};
constexpr std::uint32_t kGlobalCell = 512;

struct Extent {
  unsigned char* data;
  std::uint64_t bytes;
  std::string name;
  std::uint32_t access;
  std::vector<GlobalCell> cells;       // empty until it is touched
  std::vector<std::uint64_t> written;  // a bit for each byte; of outputs only
  std::uint64_t first_used = ~0ull;    // cells touched by this launch
  std::uint64_t last_used = 0;

  Bits written_bits() { return Bits(written.data()); }
};

// The part of an access that lies inside its extent.
struct GlobalPart {
  std::uint64_t skip;  // bytes before it
  std::uint64_t bytes;
  Extent* extent;  // null: nothing is declared, or the address belongs to nobody
  bool is_whole;
};
GlobalPart TouchGlobal(const Instruction& by, Access access, const void* at, std::uint64_t bytes,
                       Site site);
// What is known of the 32 bytes around an offset; null where nothing has touched the extent.
const GlobalGranule* GranuleOf(const Extent& extent, std::uint64_t offset);
// Whether an access of the block comes after what is recorded.
bool IsBefore(const GlobalRecord& record, const CheckedBlock& block, const Instruction& by);
// The extent of an address, or the one next to it; null where none is near.
Extent* FindExtent(const void* at);

void DeclareExtent(void* data, std::uint64_t bytes, const char* name, std::uint32_t access);
// Memory whose size nobody knows: what is done there is not looked at.
void DeclareOpenPart(const void* data, std::uint64_t bytes);
void ForgetExtent(const void* data);
void ForgetExtents();
void ForgetAccesses();  // when a launch begins
void MarkFailed();      // a launch was ended: outputs are not complete
std::vector<Finding> UnwrittenOutputs();
std::uint32_t NextMoment();

}  // namespace anyop_ascend
