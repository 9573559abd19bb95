// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, const Tensor* weight, double factor, const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t j = 0; j < x.row_size(); ++j) {
      const double gain = weight ? Read(*weight, j) : 1;
      y.row<double>(r)[std::size_t(j)] = Read(x, x.row_offset(r) + j) * gain * factor;
    }
  }
}

}  // namespace

extern constinit const Reference good_reference{.op = "good", .run = Bind<&Run>()};
extern constinit const Reference truncates_reference{.op = "truncates", .run = Bind<&Run>()};
extern constinit const Reference writes_after_row_reference{.op = "writes_after_row",
                                                            .run = Bind<&Run>()};
extern constinit const Reference writes_far_beyond_reference{.op = "writes_far_beyond",
                                                             .run = Bind<&Run>()};
extern constinit const Reference skips_last_reference{.op = "skips_last", .run = Bind<&Run>()};
extern constinit const Reference writes_input_reference{.op = "writes_input", .run = Bind<&Run>()};
extern constinit const Reference wrong_tail_reference{.op = "wrong_tail", .run = Bind<&Run>()};
extern constinit const Reference sees_next_row_reference{.op = "sees_next_row",
                                                         .run = Bind<&Run>()};
extern constinit const Reference sees_threads_reference{.op = "sees_threads", .run = Bind<&Run>()};
extern constinit const Reference swallows_nan_reference{.op = "swallows_nan", .run = Bind<&Run>()};
extern constinit const Reference sees_workspace_reference{.op = "sees_workspace",
                                                          .run = Bind<&Run>()};
extern constinit const Reference overflows_workspace_reference{.op = "overflows_workspace",
                                                               .run = Bind<&Run>()};
extern constinit const Reference reads_after_writing_reference{.op = "reads_after_writing",
                                                               .run = Bind<&Run>()};
extern constinit const Reference reads_beyond_row_reference{.op = "reads_beyond_row",
                                                            .run = Bind<&Run>()};
extern constinit const Reference assumes_dense_reference{.op = "assumes_dense",
                                                         .run = Bind<&Run>()};
extern constinit const Reference forgets_stride_0_reference{.op = "forgets_stride_0",
                                                            .run = Bind<&Run>()};
extern constinit const Reference fails_reference{.op = "fails", .run = Bind<&Run>()};

}  // namespace anyop::ops
