# SPDX-License-Identifier: Apache-2.0
"""Makes a graph of anyop's of an FX graph, and host parts of what has no converter."""
