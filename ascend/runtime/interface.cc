// SPDX-License-Identifier: Apache-2.0
// The C interface.
#include <string>

#include "anyop_ascend/kernel_table.h"
#include "checked_block.h"
#include "global.h"
#include "launches.h"

namespace anyop_ascend {
namespace {

thread_local std::string error;
thread_local bool has_completed = true;

}  // namespace

int Fail(std::string text) {
  error = std::move(text);
  return 1;
}

std::uint64_t TilingKey() { return options.tiling_key; }

void Launch(const LaunchOf& launch) {
  if (launch.blocks < 1 || launch.blocks > 65535) {
    Report("launch", Site("", 0), "%s: %u blocks, but a launch has 1 to 65535", launch.name,
           launch.blocks);
    has_completed = false;
    return;
  }
  const bool completed = launch.is_checked ? LaunchChecked(launch) : LaunchFast(launch);
  has_completed = has_completed && completed;
}

}  // namespace anyop_ascend

using namespace anyop_ascend;

#pragma GCC visibility push(default)

int anyop_ascend_configure(const anyop_ascend_options* given) {
  if (!given || given->bytes != sizeof(anyop_ascend_options)) {
    return Fail(
        Format("anyop_ascend_configure: options of %u bytes, but this runtime's have %zu. "
               "Compile against its kernel_table.h",
               given ? given->bytes : 0, sizeof(anyop_ascend_options)));
  }
  const Soc* soc = given->soc ? FindSoc(given->soc) : &kSocs[0];
  if (!soc) {
    return Fail(
        Format("anyop_ascend_configure: there is no SoC '%s', but %s", given->soc, SocsAsJson()));
  }
  options.is_strict = given->strict != 0;
  options.soc = soc;
  options.max_steps = given->max_steps ? given->max_steps : std::uint64_t{1} << 26;
  options.seed = given->seed;
  options.tiling_key = given->tiling_key;
  return 0;
}
const char* anyop_ascend_error(void) { return error.c_str(); }
const char* anyop_ascend_socs(void) { return SocsAsJson(); }

void anyop_ascend_declare(void* data, uint64_t bytes, const char* name, uint32_t access) {
  DeclareExtent(data, bytes, name, access);
}
void anyop_ascend_clear(void) {
  ForgetExtents();
  ClearFindings();
}

int anyop_ascend_launch(const anyop_ascend_kernel* kernel, uint32_t blocks,
                        void* const* arguments) {
  if (blocks < 1 || blocks > 65535) {
    return Fail(Format("%s: %u blocks, but a launch has 1 to 65535. Try another number of blocks",
                       kernel->name, blocks));
  }
  has_completed = true;
  kernel->call(blocks, arguments);
  return has_completed ? 0
                       : Fail(std::string(kernel->name) + ": the kernel was ended by a finding");
}

const char* anyop_ascend_findings(void) {
  static thread_local std::string text;
  text = FindingsAsJson();
  return text.c_str();
}

#pragma GCC visibility pop
