// SPDX-License-Identifier: Apache-2.0
// Recording: calls of this process as capsules (runtime/observe/capsule.h) in the folder
// ANYOP_RECORD, for `anyop replay`. Graphs are recorded too (graph/record.h), beside the calls that
// they make.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/registry/operator.h"

namespace anyop {

bool IsRecording();

// Records a call before it runs, because it may write what it reads, or crash. Of calls with the
// same shapes, numbers and kernel the first ANYOP_RECORD_EACH are written, until there are
// ANYOP_RECORD_CALLS files or ANYOP_RECORD_MIB of them. The first call that is left out by these
// two limits is told as a warning.
void Record(const Operator& op, const Plan& plan, const anyop_value* frame);

// How many are recorded of calls with the same shapes, numbers and kernel.
std::int64_t RecordsOfEach();
// Counts a record of so many bytes and returns its path without an ending, or "" where the limits
// are reached.
std::string NewRecord(std::string_view name, std::int64_t bytes);
// `path` could not be written: nothing more is recorded.
void StopRecording(const std::string& error);

}  // namespace anyop
