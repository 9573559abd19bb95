// SPDX-License-Identifier: Apache-2.0
// Tiling functions of libraries that are loaded.
#include <cctype>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "anyop_ascend/host/registry.h"
#include "findings.h"
#include "launches.h"

namespace anyop_ascend {
namespace {

// "AddCustom" and "add_custom" name the same operator.
std::string KeyOf(const char* op) {
  std::string key;
  for (const char* c = op; *c; ++c)
    if (*c != '_') key += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  return key;
}

struct Registered {
  std::string op;
  const TilingFunction* function;
};
struct Registry {
  std::mutex mutex;
  std::map<std::string, Registered> all;
};
Registry& TheRegistry() {
  static auto* registry = new Registry;  // outlives every library
  return *registry;
}

std::string Names(const Registry& registry) {
  std::string names;
  for (const auto& [key, one] : registry.all) names += (names.empty() ? "" : ", ") + one.op;
  return names;
}
const TilingFunction* Find(const char* op) {
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.all.find(KeyOf(op));
  if (found != registry.all.end()) return found->second.function;
  const std::string names = Names(registry);
  Fail(
      Format("%s: no library that is loaded has a tiling function for it%s%s. Try "
             "IMPL_OP_OPTILING or OP_ADD in the op_host file",
             op, names.empty() ? "" : ", but for ", names.c_str()));
  return nullptr;
}

}  // namespace

void RegisterTiling(const char* op, const TilingFunction* function) {
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  registry.all[KeyOf(op)] = {op, function};
}
int FailTiling(const char* op, const char* text) { return Fail(Format("%s: %s", op, text)); }

}  // namespace anyop_ascend

using namespace anyop_ascend;

#pragma GCC visibility push(default)

int anyop_ascend_tiling(const char* op, anyop_ascend_tiling_call* call) {
  if (!call || call->bytes != sizeof *call) {
    return Fail(
        Format("anyop_ascend_tiling: a call of %u bytes, but this runtime's have %zu. "
               "Compile against its kernel_table.h",
               call ? call->bytes : 0, sizeof *call));
  }
  const TilingFunction* function = Find(op);
  if (!function) return 1;
  if (function->Call(*call)) return 1;
  if (call->data_bytes > call->capacity) {
    return Fail(Format("%s: the tiling data have %llu bytes, but there is room for %llu", op,
                       static_cast<unsigned long long>(call->data_bytes),
                       static_cast<unsigned long long>(call->capacity)));
  }
  if (!call->block_dim) {
    return Fail(Format("%s: the tiling function sets no number of blocks. Try SetBlockDim", op));
  }
  return 0;
}

const char* anyop_ascend_tilings(void) {
  static thread_local std::string text;
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  text = "{";
  for (const auto& [key, one] : registry.all) {
    text += (text.size() > 1 ? ", \"" : "\"") + one.op + "\": " + one.function->definition();
  }
  text += "}";
  return text.c_str();
}

#pragma GCC visibility pop
