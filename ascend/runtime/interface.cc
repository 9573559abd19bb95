// SPDX-License-Identifier: Apache-2.0
// The C interface.
#include <mutex>
#include <string>

#include "anyop_ascend/kernel_table.h"
#include "checked_block.h"
#include "global.h"
#include "launches.h"

namespace anyop_ascend {
namespace {

struct Texts {
  std::string error, findings;
};
// Kept by a pointer, and for ever: see faults.h on what is of a thread.
Texts& TextsOfThread() {
  static thread_local Texts* texts = nullptr;
  if (!texts) texts = new Texts;
  return *texts;
}
thread_local bool has_completed = true;

}  // namespace

std::mutex& Checking() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

int Fail(std::string text) {
  TextsOfThread().error = std::move(text);
  return 1;
}

std::uint64_t TilingKey() {
  return block && block->tiling_key ? *block->tiling_key : options.tiling_key;
}

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
const char* anyop_ascend_error(void) { return TextsOfThread().error.c_str(); }
const char* anyop_ascend_socs(void) { return SocsAsJson(); }

void anyop_ascend_declare(void* data, uint64_t bytes, const char* name, uint32_t access) {
  DeclareExtent(data, bytes, name, access);
}
void anyop_ascend_clear(void) {
  ForgetExtents();
  ClearFindings();
}

uint32_t anyop_ascend_vector_cores(void) { return NameOf(SocOfEnvironment()).vector_cores; }

void anyop_ascend_begin(void) {
  Checking().lock();
  options = Options();
  options.soc = &SocOfEnvironment();
  anyop_ascend_clear();
}
void anyop_ascend_end(void) {
  anyop_ascend_clear();
  Checking().unlock();
}
const char* anyop_ascend_complaint(void) {
  static std::string text;  // of the one thread
  text = FirstError();
  return text.empty() ? nullptr : text.c_str();
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

int anyop_ascend_use_device(const char* library) {
  std::string why;
  return UseDevice(library, &why) ? Fail("anyop_ascend_use_device: " + why) : 0;
}
int anyop_ascend_synchronize(void* stream) {
  std::string why;
  return Synchronize(stream, &why) ? Fail(why) : 0;
}

const char* anyop_ascend_findings(void) {
  std::string& text = TextsOfThread().findings;
  text = FindingsAsJson();
  return text.c_str();
}

#pragma GCC visibility pop
