# SPDX-License-Identifier: Apache-2.0
"""Which nodes of torch's graphs are which operators of ours: tables of single ones, patterns of
several that become one, and the table of what modules of anyop.torch.nn are made of.
"""
