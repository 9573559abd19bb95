# SPDX-License-Identifier: Apache-2.0
"""What is known of the nodes of an FX graph: sizes, memory, lines, constants, converters."""
