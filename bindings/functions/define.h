// SPDX-License-Identifier: Apache-2.0
// Operators whose kernel is a function of Python.
#pragma once
#include <string>
#include <vector>

#include "bindings/calls/call.h"
#include "bindings/host/lend.h"

namespace anyop::python {

// A function, what it takes, and whether it writes `out` itself.
struct DefinedFunction {
  PyObject* function = nullptr;
  HostName takes = nullptr;  // tensors of this host; null: of the caller's
  bool takes_out = false;
  bool is_trusted = false;  // keeps no argument, so that tensors may be lent again
};

// The data of a kernel that is a function of Python. Never freed: plans point to it.
struct Definition {
  std::vector<DefinedFunction> functions;  // in the order in which For() prefers them
  PyObject* accept = nullptr;              // accept(function, host, returned, results)
  OperatorInfo* info = nullptr;

  std::string library, signature, gradient, doc, source, flops, bytes;
  anyop_kernel kernel{};
  anyop_op op{};
  anyop_library_info table{};
  const anyop_kernel* kernels[1] = {&kernel};
  const anyop_op* ops[1] = {&op};
  const char* docs[1] = {};
  const char* files[1] = {};

  // What callers with tensors of a host get: the function for these, else the one for all, else
  // the first.
  const DefinedFunction& For(HostName caller) const;
};

// Of an operator that anyop.define made; null for any other.
Definition* DefinitionOf(const Operator& op);

// The kernel: runs the function of the Definition that the context holds.
int RunFunction(const anyop_context* context, const anyop_value* frame);

// A call from Python of such an operator: its own objects can be handed on to the function, and
// what the function raises reaches the caller as it was.
PyObject* CallDefined(PyObject* self, PyObject* const* args, Py_ssize_t n_args, PyObject* keywords);

}  // namespace anyop::python
