# SPDX-License-Identifier: Apache-2.0
# Makes this folder the toolkit for what is built and run from this shell: source @HOME@/set_env.sh
export ASCEND_TOOLKIT_HOME='@HOME@/latest'
export ASCEND_HOME_PATH="$ASCEND_TOOLKIT_HOME"
export ASCEND_CANN_PACKAGE_PATH="$ASCEND_TOOLKIT_HOME"
export ASCEND_OPP_PATH="$ASCEND_TOOLKIT_HOME/opp"
export ASCENDC_CMAKE_DIR="$ASCEND_TOOLKIT_HOME/tools/tikcpp/ascendc_kernel_cmake"
export PATH="$ASCEND_TOOLKIT_HOME/bin:$PATH"
export PYTHONPATH="$ASCEND_TOOLKIT_HOME/python/site-packages${PYTHONPATH:+:$PYTHONPATH}"
# The runtime of kernels is found by what is linked from here on, and has no name but its own.
export LD_RUN_PATH='@LIBRARIES@'"${LD_RUN_PATH:+:$LD_RUN_PATH}"
