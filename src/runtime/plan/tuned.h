// SPDX-License-Identifier: Apache-2.0
// What `anyop tune` recorded: the times of two kernels of which the machine decides the faster one.
//
// A file holds the choices of one machine, as text:
//
//   anyop tuned 1
//   machine <tab> processor <tab> features
//   choice <tab> operator, version, contract, call, first, second, first_ns, second_ns, by tabs
//   digest <tab> HashBytes of all bytes above, 16 hexadecimal digits
//
// A process reads the file once, when a first call has two such kernels. What is written later does
// not change a process that runs.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/registry/operator.h"

namespace anyop {

struct TunedChoice {
  std::string op;             // full name
  std::string version;        // of the library that it came from
  std::string contract;       // the contract's hash
  std::string call;           // see TunedCall
  std::string first, second;  // kernels, in the operator's order
  double first_ns = 0, second_ns = 0;

  bool second_is_faster() const { return second_ns < first_ns; }
};

// The processor and its features, whatever ANYOP_ISA hides: a file of another machine is not used.
std::string TunedMachine();

// The file that this process uses: ANYOP_TUNED, or a file in the cache folder that is named after
// the machine. "" for none: ANYOP_TUNED is none, or the user has no cache folder.
std::string TunedPath();

// The version of the library that an operator came from.
std::string TunedVersion(const Operator& op);

// The calls that one measurement stands for, as text: the dtypes of the variables that every call
// binds, "T=bf16", and the form where the signature has several, "T=bf16, form 2".
std::string TunedCall(const Contract& contract, int form, const Bindings& bindings);
// The dtype variables of arguments that cannot be absent, by bit: every call of the form binds
// them.
std::uint64_t RequiredDTypeVars(const Form& form);

std::string FormatTuned(std::string_view machine, const std::vector<TunedChoice>& choices);
// Reads the choices of a text. Returns "", or why it holds none for this machine ("its digest does
// not fit"): such a file is ignored, never an error of a call.
std::string ParseTuned(std::string_view text, std::string_view machine,
                       std::vector<TunedChoice>* choices);
// The same for a file. Why may also be "there is no such file".
std::string ReadTuned(const std::string& path, std::vector<TunedChoice>* choices);
// Replaces the file at once, so that no reader sees a part of it, and makes its folder. Throws
// NotAvailable if it cannot be written, InvalidArgument if something else lies there.
void WriteTuned(const std::string& path, const std::vector<TunedChoice>& choices);
// Removes the file; false if there is none. Throws as WriteTuned does.
bool RemoveTuned(const std::string& path);

// Why a choice is of no use with the operators that are loaded, or "".
std::string WhyStale(const TunedChoice& choice);

// Choices by operator, call and kernels.
class TunedTable {
 public:
  TunedTable() = default;
  explicit TunedTable(const std::vector<TunedChoice>& choices, std::string path = "");
  // Null where there is none.
  const TunedChoice* Find(std::string_view op, std::string_view call, std::string_view first,
                          std::string_view second) const;
  const std::string& path() const { return path_; }

 private:
  std::map<std::string, TunedChoice, std::less<>> choices_;
  std::string path_;
};

// The choice that is recorded for this pair of kernels, or null. The first call in a process reads
// the file; one that cannot be used is logged once as a warning, and so is the first choice that is
// stale.
const TunedChoice* FindTuned(const Operator& op, std::string_view call, std::string_view first,
                             std::string_view second);
// For tests: looks in this table from now on; null reads the file anew. Plans stay as they are.
void UseTuned(std::unique_ptr<const TunedTable> table);

}  // namespace anyop
