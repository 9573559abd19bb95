# SPDX-License-Identifier: Apache-2.0
"""What tools/house.py checks: functions from a tree of files to breaches."""
