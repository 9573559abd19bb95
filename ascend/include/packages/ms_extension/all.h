// SPDX-License-Identifier: Apache-2.0
// The other name under which packages include MindSpore's interface for custom operators.
#pragma once
#include "ms_extension/api.h"
