// SPDX-License-Identifier: Apache-2.0
// What was found: one entry for each kind and pair of places, with a count.
#pragma once
#include <cstdint>
#include <string>

#include "anyop_ascend/core.h"

namespace anyop_ascend {

enum class Level : std::uint8_t { kError, kStrict, kNote };

// Number of a place; 0 is no place. Equal places may have several numbers.
std::uint32_t PlaceOf(Site at);
Site SiteOf(std::uint32_t place);
std::string Shown(std::uint32_t place);  // "kernel.cpp:12"

struct Finding {
  const char* kind;
  Level level = Level::kError;
  std::uint32_t here = 0;
  std::uint32_t there = 0;
  int block = -1;
  int there_block = -1;
  std::string text;
  std::string insert;
  std::string code = {};  // of a fault's instruction: "/path/kernel.so+0x1234"
};
// Whether a finding of this kind and these places is new. Its text is made and added only then;
// else it is counted.
bool IsNew(const char* kind, std::uint32_t here, std::uint32_t there, int part = 0);
void AddFinding(Finding finding, int part = 0);
// A finding of the block that runs that devices let pass.
void Note(const char* kind, Site at, std::string text);
void ClearFindings();
// The first one since ClearFindings, with its place.
std::string FirstErrorWithPlace();
// How often errors were found, each of the same kind and places counted again; and the last one, as
// "kernel.cpp:12: what is wrong".
std::uint64_t ErrorsSoFar(std::string* last);
std::string FindingsAsJson();
std::string FirstError();  // "" if there is none

// printf into a string.
std::string Format(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace anyop_ascend
