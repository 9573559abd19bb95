// SPDX-License-Identifier: Apache-2.0
// Contexts of the functions of op_host files.
#pragma once
#include "anyop_ascend/host/context.h"
