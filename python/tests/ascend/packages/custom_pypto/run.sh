#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -e
cd "$(dirname "$0")/tests"
python3 test_add_custom.py
