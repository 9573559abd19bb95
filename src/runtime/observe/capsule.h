// SPDX-License-Identifier: Apache-2.0
// A call as one file: what its tensors hold, its other arguments, and where it ran. A safetensors
// file (https://github.com/huggingface/safetensors) whose `__metadata__` holds, as texts:
//
//   format       "anyop-capsule 1"
//   op           full name; library and file: where it came from
//   call         "x = f32[2, 8], eps = 9.9999999999999995e-07", as ParseCall reads it, exact
//   strides      "x = [16, 1]", of tensors that are not contiguous, one a line
//   over         "y = x": the result has the memory of the argument, one a line
//   declined     the results that the caller declined, one a line
//   kernel       which ran, or was about to
//   threads, isa, policy, batch_invariant, cpu
//   finding, message  what check mode found, "" else
//
// The elements of an argument are the tensor of its name, those of lists "caches.0", "caches.1".
// `anyop replay` reads it (python/anyop/cli/capsules.py).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/registry/operator.h"

namespace anyop {

// The bytes of the call's arguments that are tensors.
std::int64_t CapsuleBytes(const Operator& op, const anyop_value* frame);

// Writes the file; returns "", or why the system refuses. The file is there whole or not at all.
std::string SaveCapsule(const std::string& path, const Operator& op, const Plan& plan,
                        const anyop_value* frame, std::string_view finding = "",
                        std::string_view message = "");

// Saves the call that check mode found something in, below ANYOP_RECORD or anyop's cache folder;
// the same finding in an equal call takes the place of the old file. Returns the path, "" where
// nothing was saved: no folder, or more than 1 GiB.
std::string SaveFinding(const Operator& op, const Plan& plan, const anyop_value* frame,
                        std::string_view code, std::string_view message);

}  // namespace anyop
