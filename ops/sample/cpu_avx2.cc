// SPDX-License-Identifier: Apache-2.0
#include "ops/sample/sample.h"

namespace anyop::ops {

extern constinit const Kernel sample_avx2{.name = "cpu_avx2",
                                          .when = "v < 2147483648",
                                          .workspace = kWorkspace<&SampleBytes>,
                                          .run = Bind<&RunSample>()};

}  // namespace anyop::ops
