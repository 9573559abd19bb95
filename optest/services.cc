// SPDX-License-Identifier: Apache-2.0
#include "optest/services.h"

#include "optest/region.h"
#include "optest/running.h"
#include "platform/threads.h"

namespace anyop::optest {
namespace {
constexpr double kWorthWaking = 1e6;  // ns

std::unique_ptr<Memory> MakeWorkspace(const ServicesOptions& options) {
  const bool stops = options.cut == Cut::kInterrupted;
  // Pages of its own, from the first byte on.
  const std::uint64_t bytes =
      stops ? (options.workspace_bytes + 63) / 64 * 64 : options.workspace_bytes;
  return std::make_unique<Memory>(DType::kU8, std::vector<std::int64_t>{std::int64_t(bytes)},
                                  stops ? Layout::kPageEnd : Layout::kDense, options.poison);
}

}  // namespace

Services::Services(const ServicesOptions& options)
    : cut_(options.cut), access_(options.stop.access), stop_pages_(options.stop_pages) {
  host_ = {sizeof host_, ANYOP_ABI_VERSION, &Services::ParallelFor, &Services::SetError,
           [](int, const char*) {}};
  context_.size = sizeof context_;
  context_.flags = options.is_batch_invariant ? ANYOP_FLAG_BATCH_INVARIANT : 0;
  if (cut_ != Cut::kWhole) context_.flags |= ANYOP_FLAG_CUT_ALL;
  context_.host = &host_;
  if (options.workspace_bytes > 0) {
    workspace_ = MakeWorkspace(options);
    context_.workspace = workspace_->tensor().data;
    context_.workspace_bytes = options.workspace_bytes;
    if (options.stop.memory == "workspace") stop_pages_ = workspace_->pages();
  }
  context_.threads = options.threads;
  // A cache so small that kernels stream what they write, wherever results are compared anyway.
  context_.cache_kib = cut_ == Cut::kBackwards ? 1 : 0;
  context_.runtime = this;
  context_.data = options.kernel_data;
}

std::string Services::WorkspaceText() const {
  return "its workspace of " + std::to_string(context_.workspace_bytes) + " bytes";
}

Defect Services::FindDefect() const {
  if (!workspace_) return {};
  return DefectOf(workspace_->FindTrespass(false), WorkspaceText(), "the workspace",
                  "Try a .workspace that says how much it takes.");
}

void Services::NoteMemories() const {
  if (workspace_) NoteMemory(workspace_->begin(), workspace_->bytes(), "", "its workspace");
}

void Services::ParallelFor(const anyop_context* context, std::int64_t n, std::int64_t,
                           void (*fn)(void*, std::int64_t, std::int64_t), void* arg) {
  if (n <= 0) return;
  const Region region{fn, arg, n};
  if (IsInPart()) return region.RunWhole();
  auto& services = *static_cast<Services*>(context->runtime);
  services.cut_regions_ += region.parts() > 1;
  switch (services.cut_) {
    case Cut::kWhole:
      return region.RunWhole();
    case Cut::kPool:
      return anyop::ParallelFor(context->threads, n, 1, fn, arg, kWorthWaking);
    case Cut::kBackwards:
      return RunBackwards(region);
    case Cut::kThreads:
      return RunOnThreads(region, context->threads);
    case Cut::kInterrupted:
      if (services.waits_) return RunBackwards(region);
      services.waits_ = !RunInPairs(region, services.stop_pages_, services.access_);
      return;
  }
}

int Services::SetError(const anyop_context* context, int code, const char* text) {
  static_cast<Services*>(context->runtime)->error_ = text;
  return code;
}

}  // namespace anyop::optest
