// SPDX-License-Identifier: Apache-2.0
// A registered operator: its contract and kernels, and what calls of it need at hand.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "anyop/abi.h"
#include "anyop/signature.h"
#include "runtime/registry/composition.h"
#include "signature/contract.h"
#include "signature/expression.h"

namespace anyop {

// The oldest layout of a kernel's table that this runtime reads, by the first field it may lack.
inline constexpr std::size_t kLeastKernel = offsetof(anyop_kernel, accepts);

struct GradientWiring;
struct Operator;
struct Plan;
class PlanCache;

// Performs a call. The runtime's own by default; observers swap it.
using Entry = void (*)(Operator&, Plan&, anyop_value* frame);

// What enters the key of a call, by place in the frame. Of every value its head enters: the tag,
// the number of a word, the count. Words need no more, nor do numbers that no plan depends on.
struct KeyParts {
  std::uint8_t n_values = 0, n_numbers = 0, n_tensors = 0, n_lists = 0;
  std::uint8_t numbers[kMaxParams];  // bools and dtypes too
  std::uint8_t tensors[kMaxParams + kMaxResults];
  std::uint8_t lists[kMaxParams];
};

// The name of the kernels that `anyop.define` makes of functions of Python.
inline constexpr const char* kPythonKernel = "cpu_python";

struct OperatorKernel {
  std::string name;
  bool is_built = false;
  bool has_features = false;  // this machine has everything in .needs, within ANYOP_ISA
  std::string missing;        // the first feature that the machine lacks
  std::string device;         // the first word of the name: "cpu"
  bool is_for_host = true;    // `device` is "cpu", or not known
  bool stops = false;         // see anyop_device_kernel
  std::string file;           // the library of a device that brought it; "": the operator's own
  bool needs_caller = false;  // a function of Python, which only a thread that may wait for its
                              // lock can call
  bool is_portable = false;   // no .needs: stays eligible when the operator is disabled
  anyop_kernel data{};        // fields that an older library lacks are zero
  std::vector<Expression> when;
  Expression workspace;
};

// Never destroyed once registered: plans, graphs and dispatchers hold pointers.
struct Operator {
  Operator();
  ~Operator();
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

  const anyop_op* data;     // fields that an older library lacks are zero or ""
  std::string library;      // "anyop"
  std::string name;         // the full name, "anyop.rms_norm"
  std::string shown_name;   // what display_name returns, as long as the process lives
  std::string file;         // the shared object that it came from
  std::uint64_t image = 0;  // the fingerprint of that file; 0: built in, or made in memory
  std::string source;       // its source, relative to the library's folder
  std::string doc;          // its opening comment
  std::unique_ptr<Contract> contract;
  int index;  // dense: 0, 1, 2 ... in order of registration
  int n_params;
  int n_results;
  std::vector<OperatorKernel> kernels;
  Expression flops, bytes;

  std::uint64_t planned = 0;      // parameters in the host's memory on every device, by bit
  std::uint64_t check_reads = 0;  // parameters whose data .check may read, by bit

  KeyParts key_parts;
  std::atomic<Entry> entry;
  std::atomic<Operator*> newer{nullptr};  // what took its place (runtime/registry/replace.h)
  std::unique_ptr<PlanCache> plans;
  std::vector<Composition> compositions;  // .means: none, one for all forms, or one per form
  std::unique_ptr<const GradientWiring> gradient;  // see GradientOf
  std::unique_ptr<anyop_op> data_storage;
  const anyop_library_info* info = nullptr;  // the table that it was read from, and its place there
  std::uint32_t number = 0;

  // The name as texts give it: without "anyop.", with any other library's name.
  std::string display_name() const { return library == "anyop" ? contract->name : name; }
  // The text of an error of a call, which begins with the operator's name.
  std::string Message(const std::string& text) const { return display_name() + ": " + text; }
};

// Whether a kernel is written for the host. Kernels that libraries of devices add do not count:
// they change no call on the host.
inline bool HasHostKernel(const Operator& op) {
  return std::any_of(op.kernels.begin(), op.kernels.end(),
                     [](const OperatorKernel& k) { return k.is_for_host; });
}

}  // namespace anyop
