// SPDX-License-Identifier: Apache-2.0
// Element types and shapes.
#pragma once
#include "anyop_ascend/host/types.h"
