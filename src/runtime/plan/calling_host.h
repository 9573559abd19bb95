// SPDX-License-Identifier: Apache-2.0
// Which framework's tensors the calls of a thread come with. Kernels in C++ need not know; a kernel
// that is a function of a framework's own language gets its tensors as that framework's.
#pragma once
#include <string_view>

namespace anyop {

// The name of a framework: one address for each, so that names are compared as pointers.
using HostName = const char*;
HostName InternHostName(std::string_view name);

// The framework whose call this thread is in; null: not known.
extern constinit thread_local HostName calling_host [[gnu::tls_model("initial-exec")]];
// Set when a kernel in the host's language has raised something that the adapter must raise again
// as it was, like an interrupt: an Error has only a code and a text.
extern constinit thread_local bool kernel_has_raised;

// Set by an adapter around its calls.
class CallingHost {
 public:
  explicit CallingHost(HostName host) : outer_(calling_host) { calling_host = host; }
  ~CallingHost() { calling_host = outer_; }
  CallingHost(const CallingHost&) = delete;
  CallingHost& operator=(const CallingHost&) = delete;

 private:
  HostName outer_;
};

}  // namespace anyop
