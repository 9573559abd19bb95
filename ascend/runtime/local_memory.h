// SPDX-License-Identifier: Apache-2.0
// A core's local memories and what is known about each byte: whether something has written it, and
// which instructions touched it last.
#pragma once
#include <cstdint>

#include "anyop_ascend/core.h"
#include "bits.h"

namespace anyop_ascend {

// Pipes that touch local memory without a cube.
constexpr int kSlots = 4;
constexpr Pipe kPipeOfSlot[kSlots] = {kS, kV, kMTE2, kMTE3};
constexpr int kSlotOfPipe[kPipes] = {0, 1, 1, 2, 2, 3, 3};

// The last read and write of each pipe: of 32 bytes with a bit for each, or of a whole cell.
struct LocalRecord {
  std::uint32_t mask = 0;
  std::uint32_t index = 0;
  std::uint32_t place = 0;
};
struct LocalGranule {
  LocalRecord writes[kSlots];
  LocalRecord reads[kSlots];
};
static_assert(sizeof(LocalGranule) == 96, "a granule fills 1.5 cache lines");
constexpr std::uint32_t kGranule = 32;
// Most instructions touch hundreds of bytes: one record serves a cell until a part of it is
// touched.
constexpr std::uint32_t kCell = 512;
struct LocalCell {
  LocalGranule whole;
  bool is_split = false;
};

class LocalMemory {
 public:
  LocalMemory();
  LocalMemory(const LocalMemory&) = delete;
  LocalMemory& operator=(const LocalMemory&) = delete;

  unsigned char* data() const { return data_; }
  Bits& defined() { return defined_; }
  LocalCell& cell(std::uint32_t number) { return cells_[number]; }
  LocalGranule* granules(std::uint32_t cell) { return granules_ + cell * (kCell / kGranule); }
  void Split(std::uint32_t number);
  // Of bytes that are not defined: the instruction with which that began; 0 where nothing has
  // written them. Kept for granules.
  std::uint32_t OriginOf(std::uint32_t offset) const { return origins_[offset / kGranule]; }
  void SetOrigin(std::uint32_t offset, std::uint64_t bytes, std::uint32_t place);
  // Of a byte of a mask that is not defined: the bits of it that are. None once its mark is taken
  // from it by Undefine, which every instruction does.
  unsigned BitsOf(std::uint32_t offset) {
    return defined_.All(offset, 1) ? 0xFF : has_bits_ ? bits_[offset] : 0;
  }
  void SetBits(std::uint32_t offset, unsigned bits);
  void Undefine(std::uint32_t offset, std::uint64_t bytes);
  void CopyMarks(std::uint32_t to, std::uint32_t from, std::uint64_t bytes);
  void Use(std::uint32_t end);  // bytes before this offset in its memory are in use
  void Forget();                // all that was touched

 private:
  unsigned char* data_;
  Bits defined_;
  LocalCell* cells_;
  LocalGranule* granules_;
  std::uint32_t* origins_;
  bool has_origins_ = false;
  unsigned char* bits_;
  bool has_bits_ = false;
  std::uint32_t used_[kMemories] = {};
};

// Zeros that take no memory until they are written; never given back.
void* MapZeros(std::uint64_t bytes);

}  // namespace anyop_ascend
