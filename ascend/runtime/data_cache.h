// SPDX-License-Identifier: Apache-2.0
// The data cache of a core's scalar accesses to global memory, which neither other cores nor the
// core's own copies see.
#pragma once
#include "global.h"

namespace anyop_ascend {

// Reports a read whose order is right but whose data are not: the write still lies in the writer's
// cache, or the reader's cache still holds what was there before. `mask`: of the 32 bytes
// around the offset, those that are read.
void CheckStale(CheckedBlock& reader, const Instruction& by, const GlobalRecord& write,
                const Extent& extent, std::uint64_t offset, std::uint32_t mask);
// Reports writes whose bytes a core can lose when it writes a line of its cache back, which is done
// for whole lines: to other bytes of a line that another block writes, to a line that still lies
// in a cache, from a line that is older than memory. Before the access is recorded.
void CheckLines(CheckedBlock& writer, const Instruction& by, Extent& extent, std::uint64_t begin,
                std::uint64_t end);
// A note on what a block leaves in its cache.
void NoteDirtyLines(const CheckedBlock& ended);
void ForgetScalarWrites();  // when a launch begins

}  // namespace anyop_ascend
