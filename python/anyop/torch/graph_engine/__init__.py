# SPDX-License-Identifier: Apache-2.0
"""torchair's graphs on the virtual NPU: what it makes of a model, a graph of the engine's operators
(GE), is run here operator by operator, with torch's.
"""
