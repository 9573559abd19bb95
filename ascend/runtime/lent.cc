// SPDX-License-Identifier: Apache-2.0
#include "lent.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "anyop_ascend/kernel_table.h"
#include "global.h"
#include "launches.h"

namespace anyop_ascend {
namespace {

struct Lent {
  std::uint64_t bytes;
  std::string name;
  std::uint32_t access;
  int times;
};
struct AllLent {
  std::mutex mutex;
  std::map<std::uintptr_t, Lent> by_address;
};
AllLent& TheLent() {
  static auto* lent = new AllLent;
  return *lent;
}

struct Part {
  std::uintptr_t begin, end;
  std::string name;
  std::uint32_t access;
};

// Views of one tensor overlap: what a kernel may touch is all of them together.
std::vector<Part> Merged() {
  AllLent& lent = TheLent();
  const std::lock_guard lock(lent.mutex);
  std::vector<Part> parts;
  for (const auto& [begin, one] : lent.by_address) {
    const std::uintptr_t end = begin + one.bytes;
    if (!parts.empty() && begin < parts.back().end) {
      Part& before = parts.back();
      if (end > before.end) before.name += " and " + one.name;
      before.end = std::max(before.end, end);
      before.access |= one.access;
      continue;
    }
    parts.push_back({begin, end, one.name, one.access});
  }
  return parts;
}

}  // namespace

DeclaredLent::DeclaredLent(const HostLaunch* launch) : lock_(Checking()) {
  const std::vector<Part> parts = Merged();
  if (parts.empty() || !launch) return;
  has_declared_ = true;
  for (const Part& p : parts) {
    DeclareExtent(reinterpret_cast<void*>(p.begin), p.end - p.begin, p.name.c_str(), p.access);
  }
  for (std::uint32_t i = 0; i < launch->n_addresses; ++i) {
    void* address;
    std::memcpy(&address, static_cast<const unsigned char*>(launch->packed) + launch->addresses[i],
                sizeof address);
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    const auto after = std::find_if(parts.begin(), parts.end(), [&](const Part& p) {
      return at < p.end || at == p.begin;  // a tensor may be empty
    });
    const bool is_lent = after != parts.end() && at >= after->begin;
    if (!address || is_lent) continue;
    const std::uint64_t most = std::uint64_t{1} << 40;
    DeclareOpenPart(address, after == parts.end() ? most : std::min(after->begin - at, most));
  }
}
DeclaredLent::~DeclaredLent() {
  if (has_declared_) ForgetExtents();
}

}  // namespace anyop_ascend

using namespace anyop_ascend;

#pragma GCC visibility push(default)

void anyop_ascend_lend(const void* data, uint64_t bytes, const char* name, uint32_t access) {
  AllLent& lent = TheLent();
  const std::lock_guard lock(lent.mutex);
  Lent& one = lent.by_address[reinterpret_cast<std::uintptr_t>(data)];
  if (!one.times++ || bytes > one.bytes) {
    one.bytes = bytes;
    one.name = name;
  }
  one.access |= access;
}
void anyop_ascend_take_back(const void* data) {
  AllLent& lent = TheLent();
  const std::lock_guard lock(lent.mutex);
  const auto found = lent.by_address.find(reinterpret_cast<std::uintptr_t>(data));
  if (found != lent.by_address.end() && !--found->second.times) lent.by_address.erase(found);
}

#pragma GCC visibility pop
