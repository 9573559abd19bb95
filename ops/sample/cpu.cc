// SPDX-License-Identifier: Apache-2.0
#include "ops/sample/sample.h"

namespace anyop::ops {

ANYOP_KERNEL(sample){
    .when = "v < 2147483648", .workspace = kWorkspace<&SampleBytes>, .run = Bind<&RunSample>()};

}  // namespace anyop::ops
