// SPDX-License-Identifier: Apache-2.0
// Which framework's tensors the calls of a thread come with. Kernels in C++ need not know; a kernel
// that is a function of a framework's own language gets its tensors as that framework's.
#pragma once

namespace anyop {

enum class HostKind : unsigned char { kUnknown, kNumpy, kTorch };

extern constinit thread_local HostKind calling_host [[gnu::tls_model("initial-exec")]];

// Set by an adapter around its calls.
class CallingHost {
 public:
  explicit CallingHost(HostKind kind) : outer_(calling_host) { calling_host = kind; }
  ~CallingHost() { calling_host = outer_; }
  CallingHost(const CallingHost&) = delete;
  CallingHost& operator=(const CallingHost&) = delete;

 private:
  HostKind outer_;
};

}  // namespace anyop
