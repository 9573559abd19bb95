# SPDX-License-Identifier: Apache-2.0
"""How calls reach the kernels: the adapter that is compiled, or Python, and the fast path."""
