#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -e
cd "$(dirname "$0")"
rm -rf build dist ./*.egg-info
python3 setup.py bdist_wheel
python3 -m pip install dist/*.whl --force-reinstall --no-deps "$@"
