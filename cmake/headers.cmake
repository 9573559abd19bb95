# SPDX-License-Identifier: Apache-2.0
# Reading headers takes half of the time of most files, so that they are read fewer times.
include_guard(GLOBAL)
set(ANYOP_STANDARD_HEADERS
    <algorithm> <atomic> <bit> <cmath> <cstddef> <cstdint> <cstdio> <cstdlib> <cstring> <functional>
    <limits> <map> <memory> <new> <optional> <set> <span> <stdexcept> <string> <string_view>
    <type_traits> <utility> <vector>)

# anyop_join(target files): compiles so many of its files as one. Names in anonymous namespaces of one
# target must differ then, which readers like too; test files have namespaces of their own.
function(anyop_join target files)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files})
endfunction()

# anyop_precompile(target header...): the standard library and more headers.
function(anyop_precompile target)
  target_precompile_headers(${target} PRIVATE ${ANYOP_STANDARD_HEADERS} ${ARGN})
endfunction()
