// SPDX-License-Identifier: Apache-2.0
#include "optest/findings.h"

#include <algorithm>

#include "optest/failures.h"
#include "optest/running.h"
#include "optest/session.h"

namespace anyop::optest {
namespace {
constexpr std::size_t kEnough = 20;  // calls with a defect of one kind
}  // namespace

Findings::Findings() = default;

Findings::~Findings() { NoteReports(""); }

void Findings::Add(const Defect& defect, const OperatorKernel& kernel, const Call& call,
                   const std::string& how) {
  auto found = std::ranges::find(findings_, defect.kind, &Finding::kind);
  if (found == findings_.end()) {
    const std::string where = Title(kernel, call) + (how.empty() ? "" : ", ") + how;
    findings_.push_back(
        {defect.kind, defect.text + "\n  " + where, kernel.name, Reproduce(call), {}});
    found = findings_.end() - 1;
    std::string all;
    for (const Finding& finding : findings_) all += TextOf(finding) + "\n";
    NoteReports(all);
  }
  found->by_kernel[kernel.name].insert(call.seed());
}

bool Findings::AreEnoughOf(const OperatorKernel& kernel) const {
  return std::ranges::any_of(findings_, [&](const Finding& finding) {
    const auto found = finding.by_kernel.find(kernel.name);
    return found != finding.by_kernel.end() && found->second.size() >= kEnough;
  });
}

std::string Findings::TextOf(const Finding& finding) const {
  std::set<std::uint64_t> calls;
  std::string others;
  bool is_counted = true;
  for (const auto& [kernel, seeds] : finding.by_kernel) {
    calls.insert(seeds.begin(), seeds.end());
    is_counted = is_counted && seeds.size() < kEnough;
    if (kernel != finding.kernel) others += (others.empty() ? "" : ", ") + kernel;
  }
  std::string more;
  if (calls.size() > 1) {
    more = std::string("\n  the same in ") + (is_counted ? "" : "at least ") +
           std::to_string(calls.size() - 1) + " more call" + (calls.size() > 2 ? "s" : "");
  }
  if (!others.empty()) more += (more.empty() ? "\n  the same in " : ", and in ") + others;
  return finding.text + more + "\n  " + finding.call;
}

bool Findings::Report() const {
  for (const Finding& finding : findings_) Fail(TextOf(finding));
  return !findings_.empty();
}

}  // namespace anyop::optest
