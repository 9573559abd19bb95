// SPDX-License-Identifier: Apache-2.0
// The one signature of the operators here.
#pragma once

#define SCALE_SIGNATURE(name)                                                        \
  name "(x: T[..., d], weight: T[d]?, factor: float = 2.0) -> (y: T[..., d] over x)" \
       " where T in f32 | bf16, d >= 1"
