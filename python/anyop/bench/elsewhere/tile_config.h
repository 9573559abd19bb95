// SPDX-License-Identifier: Apache-2.0
// Included before every C++ source of llama.cpp when it is compiled. GCC's _tile_loadconfig is said
// to read 8 of its 64 bytes, so that GCC removes the stores of the others as dead: the processor
// refuses the configuration, and llama.cpp ends with a segmentation fault at its first prompt.
#pragma once
#ifdef __AMX_TILE__
#include <immintrin.h>
#define _tile_loadconfig(config)                 \
  do {                                           \
    asm volatile("" : : "r"(config) : "memory"); \
    (_tile_loadconfig)(config);                  \
  } while (0)
#endif
