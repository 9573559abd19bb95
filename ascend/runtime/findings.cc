// SPDX-License-Identifier: Apache-2.0
#include "findings.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "checked_block.h"
#include "global.h"

namespace anyop_ascend {
namespace {

struct Counted {
  Finding finding;
  std::uint64_t count;
};
using Key = std::tuple<std::string, std::string, int, std::string, int, int>;

// Without checks, blocks on several threads can report (ASSERT).
struct Findings {
  std::mutex mutex;
  std::vector<Counted> all;
  std::map<Key, std::size_t> known;
  std::uint64_t errors = 0;
  std::size_t last_error = 0;  // in `all`

  void Count(std::size_t number) {
    if (all[number].finding.level != Level::kError) return;
    ++errors;
    last_error = number;
  }
};
Findings& Found() {
  static auto* findings = new Findings;  // outlives every kernel
  return *findings;
}

// Places never move, so that blocks on other threads can read them.
struct Places {
  static constexpr std::uint32_t kMost = 1 << 16;
  Site sites[kMost];
  std::atomic<std::uint32_t> count{1};
  std::atomic<std::uint32_t> cache[1024] = {};
  std::mutex mutex;
};
Places& AllPlaces() {
  static auto* places = new Places;
  return *places;
}

Key KeyOf(const char* kind, std::uint32_t here, std::uint32_t there, int part) {
  const Site a = SiteOf(here), b = SiteOf(there);
  return {kind, a.file, a.line, b.file, b.line, part};
}

void AppendQuoted(std::string& out, const std::string& text) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += Format("\\u%04x", byte);
    } else {
      out += c;
    }
  }
  out += '"';
}

void AppendJson(std::string& out, const Finding& found, std::uint64_t count) {
  static constexpr const char* kLevels[] = {"error", "strict", "note"};
  const Site here = SiteOf(found.here), there = SiteOf(found.there);
  const auto word = [&](const char* name, const std::string& value) {
    out += Format("\"%s\": ", name);
    AppendQuoted(out, value);
    out += ", ";
  };
  out += out.size() > 1 ? ",\n {" : "{";
  word("kind", found.kind);
  word("level", kLevels[static_cast<int>(found.level)]);
  word("text", found.text);
  word("insert", found.insert);
  word("file", here.file);
  out += Format("\"line\": %d, ", here.line);
  if (!found.code.empty()) word("code", found.code);
  word("there_file", there.file);
  out += Format("\"there_line\": %d, \"block\": %d, \"there_block\": %d, \"count\": %llu}",
                there.line, found.block, found.there_block, static_cast<unsigned long long>(count));
}

}  // namespace

std::uint32_t PlaceOf(Site at) {
  if (!at.line) return 0;
  Places& places = AllPlaces();
  const auto hash =
      (reinterpret_cast<std::uintptr_t>(at.file) >> 3) + static_cast<unsigned>(at.line) * 31;
  auto& cached = places.cache[hash % 1024];
  const Site& site = places.sites[cached];
  if (site.file == at.file && site.line == at.line) return cached;
  const std::lock_guard lock(places.mutex);
  const std::uint32_t number = places.count;
  if (number == Places::kMost) return 0;
  places.sites[number] = at;
  ++places.count;
  return cached = number;
}
Site SiteOf(std::uint32_t place) { return AllPlaces().sites[place]; }
std::string Shown(std::uint32_t place) {
  const Site site = SiteOf(place);
  if (!site.line) return "an unknown line";
  const char* slash = std::strrchr(site.file, '/');
  return Format("%s:%d", slash ? slash + 1 : site.file, site.line);
}

std::string Format(const char* format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int bytes = std::vsnprintf(nullptr, 0, format, arguments);
  std::string text(static_cast<std::size_t>(bytes), ' ');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  va_end(arguments);
  return text;
}

bool IsNew(const char* kind, std::uint32_t here, std::uint32_t there, int part) {
  Findings& findings = Found();
  const std::lock_guard lock(findings.mutex);
  const auto known = findings.known.find(KeyOf(kind, here, there, part));
  if (known == findings.known.end()) return true;
  ++findings.all[known->second].count;
  findings.Count(known->second);
  return false;
}
void AddFinding(Finding finding, int part) {
  Findings& findings = Found();
  const std::lock_guard lock(findings.mutex);
  findings.known[KeyOf(finding.kind, finding.here, finding.there, part)] = findings.all.size();
  findings.all.push_back({std::move(finding), 1});
  findings.Count(findings.all.size() - 1);
}
namespace {
std::string WithPlace(const Finding& found) {
  const std::string at = found.here ? Shown(found.here) : "";
  return found.text.starts_with(at) ? found.text : at + ": " + found.text;
}
}  // namespace

std::string FirstErrorWithPlace() {
  Findings& findings = Found();
  const std::lock_guard lock(findings.mutex);
  for (const Counted& found : findings.all) {
    if (found.finding.level == Level::kError) return WithPlace(found.finding);
  }
  return "the kernel was ended";
}
std::uint64_t ErrorsSoFar(std::string* last) {
  Findings& findings = Found();
  const std::lock_guard lock(findings.mutex);
  if (last) {
    *last = "the kernel was ended";
    if (findings.last_error < findings.all.size()) {
      *last = WithPlace(findings.all[findings.last_error].finding);
    }
  }
  return findings.errors;
}
void ClearFindings() {
  Findings& findings = Found();
  const std::lock_guard lock(findings.mutex);
  findings.all.clear();
  findings.known.clear();
}
std::string FindingsAsJson() {
  Findings& findings = Found();
  std::string out = "[";
  const std::lock_guard lock(findings.mutex);
  for (const Counted& found : findings.all) AppendJson(out, found.finding, found.count);
  for (const Finding& found : UnwrittenOutputs()) AppendJson(out, found, 1);
  return out + "]";
}

std::string FirstError() {
  Findings& findings = Found();
  const std::lock_guard lock(findings.mutex);
  std::vector<Finding> errors;
  for (const Counted& found : findings.all) {
    if (found.finding.level == Level::kError) errors.push_back(found.finding);
  }
  for (Finding& found : UnwrittenOutputs()) errors.push_back(std::move(found));
  if (errors.empty()) return "";
  const Finding& first = errors[0];
  // The text of a race begins with its place; others have it put in front.
  const std::string place = first.here ? Shown(first.here) : "";
  const bool has_place = place.empty() || first.text.compare(0, place.size(), place) == 0;
  std::string text = Format("%s: %s%s%s.", first.kind, has_place ? "" : place.c_str(),
                            has_place ? "" : ": ", first.text.c_str());
  if (!first.insert.empty()) text += Format(" Insert %s.", first.insert.c_str());
  if (errors.size() > 1)
    text += Format(" There %s %zu more error%s.", errors.size() > 2 ? "are" : "is",
                   errors.size() - 1, errors.size() > 2 ? "s" : "");
  return text;
}

void Note(const char* kind, Site at, std::string text) {
  const std::uint32_t here = PlaceOf(at);
  if (IsEnding() || !IsNew(kind, here, 0)) return;
  AddFinding({.kind = kind,
              .level = Level::kNote,
              .here = here,
              .block = static_cast<int>(block->index),
              .text = std::move(text),
              .insert = ""});
}

void Report(const char* kind, Site at, const char* format, ...) {
  if (IsEnding()) return;
  const std::uint32_t here = PlaceOf(at);
  if (!IsNew(kind, here, 0)) return;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  Finding found{.kind = kind, .here = here, .text = text, .insert = ""};
  found.block = block ? static_cast<int>(block->index) : -1;
  if (!std::strcmp(kind, "ub-reserved")) found.level = Level::kNote;
  AddFinding(std::move(found));
}

}  // namespace anyop_ascend
