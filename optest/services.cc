// SPDX-License-Identifier: Apache-2.0
#include "optest/services.h"

#include <algorithm>

#include "platform/threads.h"

namespace anyop::optest {
namespace {
constexpr double kWorthWaking = 1e6;  // ns
}

Services::Services(const ServicesOptions& options) : cut_(options.cut) {
  host_ = {sizeof host_, ANYOP_ABI_VERSION, &Services::ParallelFor, &Services::SetError,
           [](int, const char*) {}};
  context_.size = sizeof context_;
  context_.flags = options.is_batch_invariant ? ANYOP_FLAG_BATCH_INVARIANT : 0;
  context_.host = &host_;
  if (options.workspace_bytes > 0) {
    workspace_ = std::make_unique<Memory>(
        DType::kU8, std::vector<std::int64_t>{std::int64_t(options.workspace_bytes)},
        Layout::kDense, options.poison);
    context_.workspace = workspace_->tensor().data;
    context_.workspace_bytes = options.workspace_bytes;
  }
  tiling_.resize((options.tiling_bytes + 7) / 8);
  context_.tiling = tiling_.data();
  context_.threads = options.threads;
  // A cache so small that kernels stream what they write, wherever results are compared anyway.
  context_.cache_kib = cut_ == Cut::kBackwards ? 1 : 0;
  context_.runtime = this;
  context_.data = options.kernel_data;
}

std::string Services::FindUndeclaredWrite() const {
  const std::string change = workspace_ ? workspace_->FindChange(false) : "";
  return change.empty() ? "" : "workspace: " + change + " was written";
}

void Services::ParallelFor(const anyop_context* context, std::int64_t n, std::int64_t grain,
                           void (*fn)(void*, std::int64_t, std::int64_t), void* arg) {
  const Cut cut = static_cast<const Services*>(context->runtime)->cut_;
  if (cut == Cut::kPool) {
    return anyop::ParallelFor(context->threads, n, grain, fn, arg, kWorthWaking);
  }
  const std::int64_t step = cut == Cut::kWhole ? n : std::max<std::int64_t>(grain, 1);
  for (std::int64_t end = n; end > 0;) {
    const std::int64_t begin = std::max<std::int64_t>(0, end - step);
    fn(arg, begin, end);
    end = begin;
  }
}

int Services::SetError(const anyop_context* context, int code, const char* text) {
  static_cast<Services*>(context->runtime)->error_ = text;
  return code;
}

}  // namespace anyop::optest
