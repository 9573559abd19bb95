// SPDX-License-Identifier: Apache-2.0
#include "platform/env.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "platform/error.h"

extern char** environ;

namespace anyop {
namespace {

constexpr std::string_view kFlag = "0 | 1", kFrom1 = "integer >= 1", kFrom0 = "integer >= 0";

constexpr EnvironmentVariable kVariables[] = {
    {"ANYOP_POLICY", "", "Kernels to use: \"all,-op1\", \"none,+op1\", \"rms_norm=cpu_avx2\".", ""},
    {"ANYOP_ISA", "native", "The widest instruction set that kernels may use.",
     "portable | avx2 | avx512 | native"},
    {"ANYOP_THREADS", "", "Threads of a parallel region; by default the cores at hand.", kFrom1},
    {"ANYOP_STRICT", "0", "Makes every silent slow path (a copy, a fallback) an error.", kFlag},
    {"ANYOP_CHECK", "0",
     "Watches what every kernel does to memory; deep: looks at results, too. Slow.",
     "0 | 1 | deep"},
    {"ANYOP_CRASH", "0",
     "Names operator, kernel and shapes on standard error when a kernel crashes. Check mode, "
     "recording and times do so, too.",
     kFlag},
    {"ANYOP_RECORD", "", "Folder that calls are recorded in; `anyop run --record` sets it.", ""},
    {"ANYOP_RECORD_CALLS", "100", "The most calls that a process records.", kFrom1},
    {"ANYOP_RECORD_EACH", "1", "Of equal calls (operator, shapes, kernel), how many are recorded.",
     kFrom1},
    {"ANYOP_RECORD_MIB", "1024", "The most MiB that a process records.", kFrom1},
    {"ANYOP_PROFILE", "", "Folder for the times of calls; `anyop profile` sets it.", ""},
    {"ANYOP_LIBRARY", "", "Path of the library of built-in operators.", ""},
    {"ANYOP_LOAD", "",
     "Libraries of operators and of devices that every process loads; paths with ':' between them.",
     ""},
    // The library of the virtual NPU reads and checks these, since it links nothing of the runtime.
    // They stand here so that they are listed, and not refused as unknown.
    {"ANYOP_ASCEND", "", "delay: work on the virtual NPU begins after delays; trace: it is listed.",
     ""},
    {"ANYOP_NPU", "",
     "1 or protect: torch_npu runs on the virtual NPU, in an environment for it; aclnn: with its "
     "own kernels over operators of aclnn; delay, trace.",
     ""},
    {"ANYOP_ASCEND_SOC", "ascend910b", "Chip of the virtual NPU, as `anyop ascend` names it.", ""},
    {"ANYOP_ASCEND_DEVICES", "2", "How many virtual NPUs there are, at most 16.", kFrom1},
    {"ANYOP_ASCEND_MEMORY_BYTES", "4294967296", "Bytes of memory of each virtual NPU.", kFrom1},
    {"ANYOP_PLAN_CACHE", "256", "Plans kept per operator.", kFrom0},
    {"ANYOP_CACHE", "", "Folder of what anyop builds; by default anyop in the user's cache folder.",
     ""},
    {"ANYOP_TUNED", "",
     "File of what `anyop tune` measured; by default one per machine in anyop's cache folder; none "
     "for no file.",
     ""},
    {"ANYOP_TORCH", "auto", "How torch's calls reach kernels: compiled adapter or Python.",
     "auto | adapter | python"},
    {"ANYOP_VLLM", "auto",
     "Whether vLLM runs on anyop: auto where it has no kernels of its own; override takes over "
     "from "
     "those that it has.",
     "auto | off | override"},
    {"ANYOP_LOG", "warning",
     "The least important messages that reach standard error; graph: also what passes do to "
     "graphs.",
     "debug | info | warning | none | graph"},
};

const EnvironmentVariable* FindVariable(std::string_view name) {
  for (const EnvironmentVariable& v : kVariables) {
    if (v.name == name) return &v;
  }
  return nullptr;
}

bool ReadInteger(std::string_view text, std::int64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

bool IsOneOf(std::string_view word, std::string_view list) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(" | ", begin), list.size());
    if (list.substr(begin, end - begin) == word) return true;
    begin = end + 3;  // the length of " | "
  }
  return false;
}

bool IsGood(const EnvironmentVariable& v, std::string_view value) {
  if (v.values.empty()) return true;
  std::int64_t number = 0;
  if (v.values == kFrom1) return ReadInteger(value, &number) && number >= 1;
  if (v.values == kFrom0) return ReadInteger(value, &number) && number >= 0;
  return IsOneOf(value, v.values);
}

std::string Checked(const EnvironmentVariable& v, const char* value) {
  if (!value || !*value) return std::string(v.default_value);
  if (!IsGood(v, value)) {
    Fail(ANYOP_INVALID_ARGUMENT, "the environment variable " + std::string(v.name) + " is '" +
                                     value + "', but must be " + std::string(v.values) + ".");
  }
  return value;
}

}  // namespace

std::span<const EnvironmentVariable> EnvironmentVariables() { return kVariables; }

std::string Environment(std::string_view name) {
  const EnvironmentVariable* v = FindVariable(name);
  if (!v) Fail(ANYOP_INTERNAL, std::string(name) + " is not in the table of src/platform/env.cc.");
  return Checked(*v, std::getenv(std::string(name).c_str()));
}

std::int64_t EnvironmentInteger(std::string_view name) {
  std::int64_t number = 0;
  ReadInteger(Environment(name), &number);
  return number;
}

bool EnvironmentFlag(std::string_view name) { return Environment(name) == "1"; }

std::string CacheFolder() {
  const std::string given = Environment("ANYOP_CACHE");
  if (!given.empty()) return given;
  const auto below = [](const char* variable, const char* folder) -> std::string {
    const char* value = std::getenv(variable);
    return value && *value ? std::string(value) + folder : "";
  };
  const std::string found = below("XDG_CACHE_HOME", "/anyop");
  return found.empty() ? below("HOME", "/.cache/anyop") : found;
}

void CheckEnvironment() {
  std::vector<std::string> known;
  for (const EnvironmentVariable& v : kVariables) known.emplace_back(v.name);
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with("ANYOP_")) continue;
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::string_view name = text.substr(0, equals);
    const EnvironmentVariable* v = FindVariable(name);
    if (!v) {
      Fail(ANYOP_INVALID_ARGUMENT, "the environment variable " + std::string(name) +
                                       " is set, but anyop has no such variable." +
                                       DidYouMean(name, known));
    }
    Checked(*v, equals < text.size() ? *entry + equals + 1 : "");
  }
}

}  // namespace anyop
