// SPDX-License-Identifier: Apache-2.0
// The table of operators and libraries. Entries are never removed.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/registry/device_library.h"
#include "runtime/registry/operator.h"

namespace anyop {

// Where libanyop was loaded from, with a slash at the end; other libraries of a build lie beside
// it.
std::string LibraryFolder();

// Loads the built-in library, if ANYOP_LIBRARY or libanyop's folder has one, then the libraries
// that ANYOP_LOAD names. Does so once.
void LoadBuiltIn();

// The name with its library: that of a built-in operator may be without.
std::string FullName(std::string_view name);

// Null where there is none. Does not load anything.
Operator* FindRegistered(std::string_view full_name);
bool HasLibrary(std::string_view name);
std::vector<std::string> OperatorNames();

// What one library of operators brings.
struct NewLibrary {
  std::string name, version, file;
  std::uint64_t image = 0;  // the fingerprint of a file; 0: built in, or made in memory
  std::vector<std::unique_ptr<Operator>> operators;
  std::vector<std::pair<std::string, const anyop_reference*>> references;  // full name
};
// Registers all or nothing. An operator takes the place of a registered one of its name
// (replace.h), unless it has the same file content or was made in memory: then it is skipped.
// Throws InvalidArgument, with both files, if the registered one has another contract or cannot be
// replaced, if a file that was built again lacks an operator, and if an operator and its gradient
// do not fit.
//
// device: of the same file, if it brings one. Its kernels are put in front of those of their
// operators, which must be registered or come with the library: else NotAvailable. InvalidArgument
// is thrown if a kernel does not fit, or if another library has the device.
void Register(NewLibrary library, NewDevice device = {});

}  // namespace anyop
