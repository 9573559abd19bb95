// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/tuned.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "platform/cpu.h"
#include "platform/env.h"
#include "platform/error.h"
#include "platform/files.h"
#include "platform/hash_bytes.h"
#include "platform/log.h"
#include "runtime/registry/registry.h"
#include "runtime/run/call.h"

namespace anyop {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHeader = "anyop tuned 1", kAnyHeader = "anyop tuned ";
constexpr std::uintmax_t kMostBytes = 16 << 20;  // a larger file is none of these: it is not read

// The text as a field of a line: tabs and ends of lines, which would end it, become spaces.
std::string Clean(std::string_view text) {
  std::string field(text);
  for (char& c : field) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return field;
}

std::string ShowNumber(double value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, 1);
  return std::string(text, end.ptr);
}

bool ReadNumber(std::string_view text, double* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && *value >= 0 && *value < 1e18;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool ReadChoice(std::string_view line, TunedChoice* choice) {
  const std::vector<std::string_view> f = Split(line, '\t');
  if (f.size() != 9 || f[0] != "choice") return false;
  *choice = {std::string(f[1]),
             std::string(f[2]),
             std::string(f[3]),
             std::string(f[4]),
             std::string(f[5]),
             std::string(f[6]),
             0,
             0};
  return ReadNumber(f[7], &choice->first_ns) && ReadNumber(f[8], &choice->second_ns);
}

std::string KeyOf(std::string_view op, std::string_view call, std::string_view first,
                  std::string_view second) {
  std::string key;
  for (std::string_view part : {op, call, first, second}) key += Clean(part) + '\t';
  return key;
}

std::string WhyStale(const TunedChoice& choice, const Operator& op) {
  const std::string version = TunedVersion(op);
  if (choice.version != version) {
    return "it is of version '" + choice.version + "' of " + op.library + ", and '" + version +
           "' is loaded";
  }
  if (choice.contract != op.contract->hash) return "it is of another signature of the operator";
  return "";
}

std::string TextOf(const std::string& path, std::string* text) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return "there is no such file";
  if (!fs::is_regular_file(status)) return "it is no regular file";
  if (fs::file_size(path, error) > kMostBytes) return "it is too large for one";
  std::ifstream file(path, std::ios::binary);
  std::ostringstream all;
  all << file.rdbuf();
  if (!file) return "it cannot be read";
  *text = all.str();
  return "";
}

// Throws if something lies at the path that `anyop tune` has not written: a user may have named any
// file. An empty one holds nothing that could be lost.
void CheckReplaceable(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return;
  std::string text;
  const std::string problem = TextOf(path, &text);
  if (problem.empty() && (text.empty() || text.starts_with(kAnyHeader))) return;
  Fail(ANYOP_INVALID_ARGUMENT, "tune: " + path + " is there, but was not written by `anyop tune`" +
                                   (problem.empty() ? "" : ": " + problem) +
                                   ". Try another name, or remove it.");
}

std::atomic<const TunedTable*> g_table{nullptr};
std::atomic<bool> g_has_warned{false};  // of a stale choice

const TunedTable& ProcessTable() {
  if (const TunedTable* table = g_table.load(std::memory_order_acquire)) return *table;
  const std::string path = TunedPath();
  std::vector<TunedChoice> choices;
  std::string problem;
  if (!path.empty()) problem = ReadTuned(path, &choices);
  auto made = std::make_unique<const TunedTable>(choices, path);
  // Several threads may have read the file at once. All use the table that was there first.
  const TunedTable* known = nullptr;
  if (!g_table.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) return *known;
  const TunedTable& table = *made.release();  // for the life of the process
  // A file that nobody named need not be there.
  const bool is_expected = !Environment("ANYOP_TUNED").empty();
  std::error_code error;
  if (!problem.empty() && (is_expected || fs::exists(path, error))) {
    Log(2,
        ("tuned choices of " + path + " are not used: " + problem + ". Try `anyop tune`.").c_str());
  }
  return table;
}

}  // namespace

std::string TunedMachine() {
  std::string features;
  for (const std::string& f : MachineFeatures()) features += (features.empty() ? "" : " ") + f;
  return Clean(CpuName()) + "\t" + Clean(features);
}

std::string TunedPath() {
  const std::string given = Environment("ANYOP_TUNED");
  if (!given.empty()) return given == "none" ? "" : given;
  const std::string folder = CacheFolder(), machine = TunedMachine();
  if (folder.empty()) return "";
  return folder + "/tuned-" + DigestOf(HashBytes(machine.data(), machine.size())) + ".txt";
}

std::string TunedVersion(const Operator& op) {
  for (const LoadedLibrary& library : Libraries()) {
    if (library.name == op.library && library.file == op.file) return Clean(library.version);
  }
  return "";
}

std::uint64_t RequiredDTypeVars(const Form& form) {
  std::uint64_t vars = 0;
  for (const Param& p : form.params) {
    if (!IsTensor(p.kind) || p.is_optional || p.tensor.dtypes.kind != DTypes::kVariable) continue;
    vars |= 1ull << p.tensor.dtypes.index;
  }
  return vars;
}

std::string TunedCall(const Contract& contract, int form, const Bindings& bindings) {
  const Form& f = contract.forms[std::size_t(form)];
  const std::uint64_t required = RequiredDTypeVars(f) & bindings.dtype_bound;
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  for (std::size_t i = 0; i < f.dtype_vars.size(); ++i) {
    if (!(required >> i & 1)) continue;
    add(std::string(f.dtype_vars[i]) + "=" + std::string(Name(DType(bindings.dtype[i]))));
  }
  if (contract.forms.size() > 1) add("form " + std::to_string(form + 1));
  return text;
}

std::string FormatTuned(std::string_view machine, const std::vector<TunedChoice>& choices) {
  std::string text(kHeader);
  text += "\nmachine\t" + std::string(machine) + "\n";
  for (const TunedChoice& c : choices) {
    text += "choice";
    for (const std::string* field :
         {&c.op, &c.version, &c.contract, &c.call, &c.first, &c.second}) {
      text += "\t" + Clean(*field);
    }
    text += "\t" + ShowNumber(c.first_ns) + "\t" + ShowNumber(c.second_ns) + "\n";
  }
  return text + "digest\t" + DigestOf(HashBytes(text.data(), text.size())) + "\n";
}

std::string ParseTuned(std::string_view text, std::string_view machine,
                       std::vector<TunedChoice>* choices) {
  choices->clear();
  const std::string_view header = text.substr(0, std::min(text.find('\n'), text.size()));
  if (!header.starts_with(kAnyHeader)) return "it was not written by `anyop tune`";
  if (header != kHeader) {
    return "its format is " + Clean(header.substr(kAnyHeader.size())) + ", and this anyop reads 1";
  }
  // Of a damaged file no line can be believed, so the digest is first. The header is in front of
  // it.
  const std::size_t digest = text.rfind("digest\t");
  if (digest == text.npos || text[digest - 1] != '\n' ||
      text.substr(digest) != "digest\t" + DigestOf(HashBytes(text.data(), digest)) + "\n") {
    return "its digest does not fit, so that it is damaged";
  }
  std::vector<std::string_view> lines = Split(text.substr(0, digest - 1), '\n');
  if (lines.size() < 2 || lines[1] != "machine\t" + std::string(machine)) {
    return "it is of another machine";
  }
  std::vector<TunedChoice> found(lines.size() - 2);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!ReadChoice(lines[i + 2], &found[i]))
      return "line " + std::to_string(i + 3) + " is damaged";
  }
  *choices = std::move(found);
  return "";
}

std::string ReadTuned(const std::string& path, std::vector<TunedChoice>* choices) {
  choices->clear();
  std::string text;
  const std::string problem = TextOf(path, &text);
  return problem.empty() ? ParseTuned(text, TunedMachine(), choices) : problem;
}

void WriteTuned(const std::string& path, const std::vector<TunedChoice>& choices) {
  CheckReplaceable(path);
  std::error_code error;
  const fs::path target = fs::weakly_canonical(path, error);  // a link stays one
  const std::string file = error ? path : target.string();
  MakeOwnFolder(fs::path(file).parent_path().string());
  static std::atomic<int> number{0};  // threads of one process write files of their own
  const std::string made = file + "." + std::to_string(::getpid()) + "." + std::to_string(number++);
  std::ofstream out(made, std::ios::binary | std::ios::trunc);
  out << FormatTuned(TunedMachine(), choices);
  out.close();
  if (out && std::rename(made.c_str(), file.c_str()) == 0) return;
  const std::string reason = std::generic_category().message(errno);
  fs::remove(made, error);
  Fail(ANYOP_NOT_AVAILABLE,
       "tune: " + path + " cannot be written: " + reason + ". Try another folder.");
}

bool RemoveTuned(const std::string& path) {
  CheckReplaceable(path);
  std::error_code error;
  const bool was_there = fs::remove(path, error);
  if (error) {
    Fail(ANYOP_NOT_AVAILABLE, "tune: " + path + " cannot be removed: " + error.message() + ".");
  }
  return was_there;
}

std::string WhyStale(const TunedChoice& choice) {
  const Operator* op = FindRegistered(choice.op);
  return op ? WhyStale(choice, *op) : "no loaded library has the operator";
}

TunedTable::TunedTable(const std::vector<TunedChoice>& choices, std::string path)
    : path_(std::move(path)) {
  for (const TunedChoice& c : choices) choices_[KeyOf(c.op, c.call, c.first, c.second)] = c;
}

const TunedChoice* TunedTable::Find(std::string_view op, std::string_view call,
                                    std::string_view first, std::string_view second) const {
  const auto found = choices_.find(KeyOf(op, call, first, second));
  return found == choices_.end() ? nullptr : &found->second;
}

const TunedChoice* FindTuned(const Operator& op, std::string_view call, std::string_view first,
                             std::string_view second) {
  const TunedTable& table = ProcessTable();
  const TunedChoice* choice = table.Find(op.name, call, first, second);
  if (!choice) return nullptr;
  const std::string why = WhyStale(*choice, op);
  if (why.empty()) return choice;
  if (!g_has_warned.exchange(true)) {
    Log(2, ("a tuned choice for " + op.display_name() + " in " + table.path() +
            " is not used: " + why + ". Try `anyop tune`.")
               .c_str());
  }
  return nullptr;
}

void UseTuned(std::unique_ptr<const TunedTable> table) {
  g_has_warned = false;
  g_table.store(table.release(), std::memory_order_release);  // a call may still read the old one
}

}  // namespace anyop
