// SPDX-License-Identifier: Apache-2.0
// The table of operators and libraries. Entries are never removed.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/operator.h"

namespace anyop {

// Where libanyop was loaded from, with a slash at the end; other libraries of a build lie beside
// it.
std::string LibraryFolder();

// Loads the built-in library, once; only where ANYOP_LIBRARY or libanyop's folder has it.
void LoadBuiltIn();

// The name with its library: that of a built-in operator may be without.
std::string FullName(std::string_view name);

// Null where there is none. Does not load anything.
Operator* FindRegistered(std::string_view full_name);
bool HasLibrary(std::string_view name);
std::vector<std::string> OperatorNames();

// What one library brings: registered all or not at all.
struct NewLibrary {
  std::string name, version, file;
  std::vector<std::unique_ptr<Operator>> operators;
  std::vector<std::pair<std::string, const anyop_reference*>> references;  // full name
};
// Skips operators that are registered with the same contract; throws InvalidArgument, naming both
// files, if one has another, and if an operator and its gradient do not fit.
void Register(NewLibrary library);

}  // namespace anyop
