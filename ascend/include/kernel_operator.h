// SPDX-License-Identifier: Apache-2.0
// The vector part of the AscendC programming interface on a host, so that kernels for an NPU are
// developed and checked on any machine. Written from public names, signatures and documented
// behaviour; no code of another implementation. ascend/README.md describes the model.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <utility>

#include "anyop_ascend/blocks.h"
#include "anyop_ascend/cast.h"
#include "anyop_ascend/compare.h"
#include "anyop_ascend/copy.h"
#include "anyop_ascend/cube.h"
#include "anyop_ascend/gather.h"
#include "anyop_ascend/launch.h"
#include "anyop_ascend/macros.h"
#include "anyop_ascend/process.h"
#include "anyop_ascend/proposals.h"
#include "anyop_ascend/queue.h"
#include "anyop_ascend/reduce.h"
#include "anyop_ascend/shape.h"
#include "anyop_ascend/sort.h"
#include "anyop_ascend/sync.h"
#include "anyop_ascend/tensor.h"
#include "anyop_ascend/tensor_list.h"
#include "anyop_ascend/tiling.h"
#include "anyop_ascend/vector.h"
