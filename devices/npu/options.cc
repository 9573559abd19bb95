// SPDX-License-Identifier: Apache-2.0
// What torch_npu sets and asks back when it starts, none of which changes a result here; and the
// functions of other libraries that it links.
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "acl.h"

using namespace npu;

namespace {

std::mutex g_mutex;
std::map<int, std::int64_t> g_parameters;
constexpr std::size_t kOptionBytes = 64;

int Format(char* to, std::size_t room, const char* format, std::va_list arguments) {
  const int length = std::vsnprintf(to, room, format, arguments);
  return length < 0 || std::size_t(length) >= room ? -1 : length;
}

}  // namespace

// ---- Options.

ACL int aclrtSetSysParamOpt(int option, std::int64_t value) {
  const std::lock_guard lock(g_mutex);
  g_parameters[option] = value;
  return kOk;
}
ACL int aclrtGetSysParamOpt(int option, std::int64_t* value) {
  const std::lock_guard lock(g_mutex);
  *value = g_parameters[option];
  return kOk;
}
ACL int aclrtCtxSetSysParamOpt(int option, std::int64_t value) {
  return aclrtSetSysParamOpt(option, value);
}
ACL int aclrtCtxGetSysParamOpt(int option, std::int64_t* value) {
  return aclrtGetSysParamOpt(option, value);
}
ACL int aclSetCompileopt(int, const char*) { return kOk; }
ACL std::size_t aclGetCompileoptSize(int) { return kOptionBytes; }
ACL int aclGetCompileopt(int, char* value, std::size_t bytes) {
  std::memset(value, 0, bytes);
  return kOk;
}
ACL int aclopSetCompileFlag(int) { return kOk; }
ACL int aclrtSetDeviceSatMode(int) { return kOk; }
ACL int aclrtSetOpWaitTimeout(std::uint32_t) { return kOk; }
ACL int aclrtSetOpExecuteTimeOut(std::uint32_t) { return kOk; }
ACL int aclrtSetOpExecuteTimeOutV2(std::uint64_t timeout, std::uint64_t* actual) {
  if (actual) *actual = timeout;
  return kOk;
}

// ---- The log and the profiler: nobody listens.

ACL void aclAppLog(int, const char*, const char*, std::uint32_t, const char*, ...) {}
ACL std::uint64_t MsprofSysCycleTime() { return 0; }
ACL std::uint64_t MsprofGetHashId(const char*, std::size_t) { return 0; }
ACL std::int32_t MsprofRegisterCallback(std::uint32_t, void*) { return 0; }
ACL std::int32_t MsprofReportApi(std::uint32_t, void*) { return 0; }
ACL std::int32_t MsprofReportCompactInfo(std::uint32_t, void*, std::uint32_t) { return 0; }
ACL std::int32_t MsprofReportAdditionalInfo(std::uint32_t, void*, std::uint32_t) { return 0; }

// ---- Strings: the functions of the C standard's Annex K that tensorpipe calls.

ACL int vsnprintf_s(char* to, std::size_t room, std::size_t, const char* format,
                    std::va_list arguments) {
  return Format(to, room, format, arguments);
}
ACL int snprintf_s(char* to, std::size_t room, std::size_t, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  const int length = Format(to, room, format, arguments);
  va_end(arguments);
  return length;
}
ACL int strcpy_s(char* to, std::size_t room, const char* from) {
  const std::size_t bytes = std::strlen(from) + 1;
  if (bytes > room) return ERANGE;
  std::memcpy(to, from, bytes);
  return 0;
}
