// SPDX-License-Identifier: Apache-2.0
// Log macros of tiling functions: silent.
#pragma once

#ifndef OP_LOGE
#define OP_LOGE(...)
#define OP_LOGW(...)
#define OP_LOGI(...)
#define OP_LOGD(...)
#define OPS_LOG_E(...)
#define OPS_LOG_W(...)
#define OPS_LOG_I(...)
#define OPS_LOG_D(...)
#endif
