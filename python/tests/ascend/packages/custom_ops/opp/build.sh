#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# build.sh FOLDER: installs the operators there; ASCEND_CUSTOM_OPP_PATH is FOLDER/vendors/custom_ops.
set -e
cd "$(dirname "$0")"
to="$1/vendors/custom_ops/op_api"
mkdir -p "$to/lib" "$to/include"
cp op_api/aclnn_add_custom.h "$to/include/"
bisheng -x asc --npu-arch=dav-2201 -shared -fPIC -std=c++17 -fvisibility=hidden \
  op_api/aclnn_add_custom.cpp -L"$ASCEND_HOME_PATH/lib64" -lnnopbase -lascendcl \
  -o "$to/lib/libcust_opapi.so"
