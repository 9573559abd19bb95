#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds what python/tests/gpu and tools/gpu.py need, on a machine with nvcc and a CUDA build of
# torch, without network and pip: the five operators that have kernels for cards, the device library
# and torch's adapter.
#
#   sh tools/gpu_build.sh [folder]          default: build/gpu
#   PYTHONPATH=build/gpu/package python3 tools/gpu.py
#
# PYTHON names the interpreter that has torch, OPERATORS further folders of ops/. nlohmann/json.hpp
# may lie in .gpu/include where the system has none.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build/gpu}
python=${PYTHON:-python3}
operators="add;rms_norm;silu_and_mul;rotary_embedding;reshape_and_cache${OPERATORS:+;$OPERATORS}"
cd "$root"
json=""
if [ -e .gpu/include/nlohmann/json.hpp ]; then
  json="-DNLOHMANN_JSON=$root/.gpu/include"
fi
PATH=$PATH:/usr/local/cuda/bin:$(dirname "$("$python" -c 'import sys; print(sys.executable)')")
export PATH
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DANYOP_NATIVE=BEST -DANYOP_CUDA=ON \
  -DANYOP_OPERATORS="$operators" -DANYOP_BUILD_TORCH=ON -DPython_EXECUTABLE="$(command -v "$python")" \
  -DPython3_EXECUTABLE="$(command -v "$python")" $json
ninja -C "$build" package
PYTHONPATH=$build/package "$python" - <<'EOF'
import pathlib, anyop
print("anyop", len(anyop.ops.anyop.__dir__()), "names;", pathlib.Path(anyop.__file__).parent)
EOF
