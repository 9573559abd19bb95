# SPDX-License-Identifier: Apache-2.0
"""Whether a replacement computes what it replaces: both are run on small tensors."""
