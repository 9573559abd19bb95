# SPDX-License-Identifier: Apache-2.0
# The one table of instruction sets: file suffix, compiler flags, CPU features that these assume.
# A file cpu_<suffix>.cc is compiled with the flags, cpu.cc with those of each general one and
# without any; every other file is portable.
set(_avx2_flags -mavx2 -mfma -mf16c -mbmi2)
set(_avx512_flags ${_avx2_flags} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd
                  -mprefer-vector-width=512)
set(_avx2_needs "avx2,fma,f16c")
set(_avx512_needs "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")
# What computes the same calls where a folder has files of both.
set(ANYOP_BETTER_avx2 avx512)
set(ANYOP_BETTER_avx512_bf16 amx_bf16)

# The best last: in this order's reverse an operator's kernels are looked at.
set(ANYOP_X86_ISAS avx2 avx512 avx512_bf16 avx512_vnni amx_bf16)
# Whose vectors any kernel may be compiled for, as simd.h has them.
set(ANYOP_GENERAL avx2 avx512)
set(ANYOP_FLAGS_avx2 ${_avx2_flags})
set(ANYOP_NEEDS_avx2 "${_avx2_needs}")
set(ANYOP_FLAGS_avx512 ${_avx512_flags})
set(ANYOP_NEEDS_avx512 "${_avx512_needs}")
set(ANYOP_FLAGS_avx512_bf16 ${_avx512_flags} -mavx512bf16)
set(ANYOP_NEEDS_avx512_bf16 "${_avx512_needs},avx512_bf16")
set(ANYOP_FLAGS_avx512_vnni ${_avx512_flags} -mavx512vnni)
set(ANYOP_NEEDS_avx512_vnni "${_avx512_needs},avx512_vnni")
set(ANYOP_FLAGS_amx_bf16 ${ANYOP_FLAGS_avx512_bf16} -mamx-tile -mamx-bf16)
set(ANYOP_NEEDS_amx_bf16 "${ANYOP_NEEDS_avx512_bf16},amx_tile,amx_bf16")
set(ANYOP_ARM_ISAS neon)
set(ANYOP_FLAGS_neon "")
set(ANYOP_NEEDS_neon "neon")

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(ANYOP_ISAS ${ANYOP_X86_ISAS})
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(ANYOP_ISAS ${ANYOP_ARM_ISAS})
else()
  set(ANYOP_ISAS "")
endif()

# Intel's processors from Skylake to Cascade Lake keep no decoded jump that crosses a multiple of 32
# bytes: a call cost up to 1.2 times and a replayed node 1.9 times as much, by where code happened to
# lie. The assembler keeps jumps within.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-Wa,-mbranches-within-32B-boundaries ANYOP_CAN_PLACE_JUMPS)
set(ANYOP_JUMP_OPTIONS "")
if(ANYOP_CAN_PLACE_JUMPS)
  set(ANYOP_JUMP_OPTIONS -Wa,-mbranches-within-32B-boundaries)
endif()

# What is built to run here and nowhere else leaves out what this processor cannot run (ON), and
# what it would hardly run, as the operator has kernels for a better instruction set (BEST).
set(ANYOP_NATIVE OFF CACHE STRING "ON: only kernels that this machine can run; BEST: the best of them")
if(ANYOP_NATIVE AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(_cpuinfo "")
  if(EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo _cpuinfo REGEX "^flags" LIMIT_COUNT 1)
  endif()
  string(REGEX MATCHALL "[a-z0-9_]+" _features "${_cpuinfo}")
  foreach(isa ${ANYOP_ISAS})
    string(REPLACE "," ";" _needs "${ANYOP_NEEDS_${isa}}")
    foreach(need ${_needs})
      if(_features AND NOT need IN_LIST _features)
        list(REMOVE_ITEM ANYOP_ISAS ${isa})
        break()
      endif()
    endforeach()
  endforeach()
endif()
