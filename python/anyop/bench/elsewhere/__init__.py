# SPDX-License-Identifier: Apache-2.0
"""What runs in the interpreter of an opponent: server.py and its sides, without anyop.

Only `rounds` is for both interpreters.
"""
