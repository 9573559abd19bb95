// SPDX-License-Identifier: Apache-2.0
// The registration of operators with the vendor's graph engine: nothing here.
#pragma once
