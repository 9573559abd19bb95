// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/added_kernels.h"

#include <algorithm>

#include "platform/error.h"
#include "runtime/registry/operator.h"

namespace anyop {

AddedKernels AddedKernels::With(const NewDevice& device, const std::string& file,
                                std::set<std::string>* changed) const {
  AddedKernels all = *this;
  // Where in each operator's list the file's kernels go. A file that was built again keeps its
  // place, because kernels are tried in the order of the list.
  std::map<std::string, std::size_t> places;
  for (auto& [op, list] : all.by_operator_) {
    const auto is_old = [&](const Added& a) {
      return device.image && a.file == file && a.image != device.image;
    };
    const auto first = std::find_if(list.begin(), list.end(), is_old);
    if (first == list.end()) continue;
    places[op] = std::size_t(first - list.begin());
    std::erase_if(list, is_old);
    changed->insert(op);
  }
  for (const auto& [op, k] : device.kernels) {
    auto& list = all.by_operator_[op];
    const auto is_known = [&k = k](const Added& a) { return a.kernel.kernel == k.kernel; };
    if (std::any_of(list.begin(), list.end(), is_known)) continue;  // loaded before
    std::size_t& at = places.try_emplace(op, list.size()).first->second;
    list.insert(list.begin() + std::ptrdiff_t(at++), {k, file, device.image});
    changed->insert(op);
  }
  std::erase_if(all.by_operator_, [](const auto& entry) { return entry.second.empty(); });
  return all;
}

std::vector<AddedKernels::Added> AddedKernels::Of(const std::string& op) const {
  const auto found = by_operator_.find(op);
  return found == by_operator_.end() ? std::vector<Added>() : found->second;
}

void AddedKernels::CheckNames(const Operator& made) const {
  const auto found = by_operator_.find(made.name);
  if (found == by_operator_.end()) return;
  const std::vector<Added>& added = found->second;
  const auto file = [&](std::size_t k) { return k < added.size() ? added[k].file : made.file; };
  for (std::size_t i = 0; i < added.size(); ++i) {
    for (std::size_t k = i + 1; k < made.kernels.size(); ++k) {
      if (made.kernels[k].name != made.kernels[i].name) continue;
      const bool is_added = k < added.size();
      Fail(ANYOP_INVALID_ARGUMENT,
           file(is_added ? k : i) + ": has a kernel " + made.kernels[i].name + " for " + made.name +
               ", but " + file(is_added ? i : k) +
               " has one of that name, and calls choose kernels by name. Try another name" +
               (file(i) == file(k) ? "." : ", or a process of its own."));
    }
  }
}

}  // namespace anyop
