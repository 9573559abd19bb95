// SPDX-License-Identifier: Apache-2.0
// Kernels that libraries of devices put in front of those of operators.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/registry/device_library.h"

namespace anyop {

struct Operator;

class AddedKernels {
 public:
  // These kernels and those of `device`, which come behind. If the file was built again, they take
  // the place of those that it brought before. changed gets the operators whose lists differ. This
  // is a copy, because the library may still be refused.
  AddedKernels With(const NewDevice& device, const std::string& file,
                    std::set<std::string>* changed) const;

  bool HasAnyOf(const std::string& op) const { return by_operator_.count(op) != 0; }
  struct Added {
    anyop_device_kernel kernel;
    std::string file;
    std::uint64_t image;
  };
  std::vector<Added> Of(const std::string& op) const;
  // Throws InvalidArgument, with both files, if two kernels have one name: policies, counters and
  // reports know kernels by name. made: the operator, with these kernels in front of its own.
  void CheckNames(const Operator& made) const;

 private:
  std::map<std::string, std::vector<Added>, std::less<>> by_operator_;
};

}  // namespace anyop
