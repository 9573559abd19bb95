// SPDX-License-Identifier: Apache-2.0
// Part of AscendCL under a name of its own.
#pragma once
#include "acl/acl.h"
