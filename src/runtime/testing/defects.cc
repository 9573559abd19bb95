// SPDX-License-Identifier: Apache-2.0
// An operator with defects, for the tests of what finds them.
#include <algorithm>
#include <limits>
#include <vector>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

float* g_argument = nullptr;  // the end of the last one that was to be remembered

// defect: y = x, and what `how` says.
void Defect(const Context& ctx, const Tensor& x, std::string_view how, const Tensor& y) {
  float* const from = const_cast<float*>(x.base<const float>());
  const bool is_short = how == "unwritten";
  for (std::int64_t r = 0; r < x.rows() - is_short; ++r) {
    const auto xr = x.row<const float>(r);
    std::copy(xr.begin(), xr.end(), y.row<float>(r).begin());
  }
  float* const to = y.base<float>();
  if (how == "behind") to[y.size()] = 1;
  if (how == "far") to[100000] = 1;
  if (how == "before") to[-1] = 1;
  if (how == "between") to[y.row_size()] = 1;
  if (how == "argument") from[0] += 1;
  if (how == "workspace") static_cast<char*>(ctx.workspace)[16] = 1;
  if (how == "remember") g_argument = from + x.size() - 1;
  if (how == "remembered") *g_argument = 7;
  if (how == "heap") to[0] = std::vector<float>(std::size_t(x.size())).data()[x.size()];
  if (how == "read") to[0] = from[x.size()];
  if (how == "read-before") to[0] = from[-2000];
  if (how == "nan") to[1] = std::numeric_limits<float>::quiet_NaN();
  if (how == "crash") to[0] = *reinterpret_cast<volatile float*>(std::uintptr_t(x.size() * 64));
  if (how == "overflow") to[0] = float(std::numeric_limits<std::int64_t>::max() + x.size());
}
constexpr Kernel kDefect{.name = "cpu_f32", .workspace = "16", .run = Bind<&Defect>()};
constexpr const Kernel* kDefectKernels[] = {&kDefect};

}  // namespace

extern constinit const Op defect{
    .signature =
        "defect(x: dense f32[..., d], how: 'none' | 'behind' | 'far' | 'before' | 'between' | "
        "'unwritten' | 'argument' | 'workspace' | 'remember' | 'remembered' | 'heap' | 'overflow' "
        "| 'read' | "
        "'read-before' | 'nan' | 'crash' = 'none') "
        "-> (y: f32[..., d] over x)",
    .kernels = kDefectKernels,
};

}  // namespace anyop::ops
