#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds what python/tests/gpu and tools/gpu.py need, on a machine with nvcc and a CUDA build of
# torch, without network and pip: the five operators that have kernels for cards, the device library
# and torch's adapter.
#
#   sh tools/gpu_build.sh [folder]          default: build/gpu
#   PYTHONPATH=build/gpu/package python3 tools/gpu.py
#
# PYTHON names the interpreter that has torch, OPERATORS further folders of ops/. With TESTS=1 the
# generated tests of these operators are built too, which need GoogleTest; they run on the card with
#
#   for t in build/gpu/tests/joined_ops_*; do
#     ANYOP_LOAD=build/gpu/package/anyop/anyop_cuda.so $t
#   done
#
# nlohmann/json.hpp and GoogleTest may lie in .gpu/include and .gpu/lib where the system has none.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build/gpu}
python=${PYTHON:-python3}
operators="add;rms_norm;silu_and_mul;rotary_embedding;reshape_and_cache${OPERATORS:+;$OPERATORS}"
cd "$root"
PATH=$PATH:/usr/local/cuda/bin:$(dirname "$("$python" -c 'import sys; print(sys.executable)')")
export PATH
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DANYOP_NATIVE=BEST -DANYOP_CUDA=ON \
  -DANYOP_OPERATORS="$operators" -DANYOP_BUILD_TORCH=ON -DPython_EXECUTABLE="$(command -v "$python")" \
  -DPython3_EXECUTABLE="$(command -v "$python")" -DCMAKE_PREFIX_PATH="$root/.gpu" \
  -DANYOP_BUILD_TESTS="${TESTS:-OFF}"
ninja -C "$build" package
if [ "${TESTS:-OFF}" != OFF ]; then
  ninja -C "$build" anyop_far anyop_ops_reference \
    $(ninja -C "$build" -t targets all | sed -n 's/^\(joined_ops_[0-9]*\): .*/\1/p')
fi
PYTHONPATH=$build/package "$python" - <<'EOF'
import pathlib, anyop
print("anyop", len(anyop.ops.anyop.__dir__()), "names;", pathlib.Path(anyop.__file__).parent)
EOF
