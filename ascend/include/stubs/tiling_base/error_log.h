// SPDX-License-Identifier: Apache-2.0
// The same macros under the name of another release.
#pragma once
#include "stubs/log/ops_log.h"
