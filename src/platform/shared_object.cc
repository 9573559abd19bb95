// SPDX-License-Identifier: Apache-2.0
#include "platform/shared_object.h"

#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "platform/error.h"

namespace anyop {
namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);

// Where a range of the file ends. A damaged header may say any numbers: a range whose end overflows
// ends at the largest number, beyond every file.
std::uint64_t End(std::uint64_t begin, std::uint64_t bytes) {
  std::uint64_t end;
  return __builtin_add_overflow(begin, bytes, &end) ? ~std::uint64_t{0} : end;
}

template <class T>
bool ReadAt(std::ifstream& file, std::uint64_t offset, T* to) {
  file.seekg(std::streamoff(offset));
  return bool(file.read(reinterpret_cast<char*>(to), sizeof *to));
}

// How many bytes the file must have for what its header and its segments say to be in it.
std::uint64_t BytesNeeded(std::ifstream& file, std::uint64_t size) {
  Header h;
  if (!ReadAt(file, 0, &h)) return sizeof h;
  std::uint64_t needed = End(h.e_phoff, std::uint64_t(h.e_phnum) * h.e_phentsize);
  if (h.e_shoff) {
    needed = std::max(needed, End(h.e_shoff, std::uint64_t(h.e_shnum) * h.e_shentsize));
  }
  if (needed > size || h.e_phentsize != sizeof(Segment)) return needed;
  for (int i = 0; i < h.e_phnum; ++i) {
    Segment s;
    if (!ReadAt(file, h.e_phoff + std::uint64_t(i) * sizeof s, &s)) break;
    if (s.p_type == PT_LOAD) needed = std::max(needed, End(s.p_offset, s.p_filesz));
  }
  return needed;
}

}  // namespace

void CheckIsWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = std::uint64_t(file.tellg());
  char magic[SELFMAG] = {};
  if (!file || !ReadAt(file, 0, &magic) || std::memcmp(magic, ELFMAG, SELFMAG)) return;
  const std::uint64_t needed = BytesNeeded(file, size);
  if (needed <= size) return;
  Fail(ANYOP_NOT_AVAILABLE, path + ": has " + std::to_string(size) +
                                " bytes, but its header tells of " + std::to_string(needed) +
                                ": the file is cut off. Try to build or copy it again.");
}

}  // namespace anyop
