# SPDX-License-Identifier: Apache-2.0
"""Compares what a package of torch operators says about each operator: its schema, its Meta
functions and its converters for graphs. Files are read, and nothing of them is run.
"""

from anyop.ascend.lint.package import Package, read
from anyop.ascend.lint.rules import Finding, counted, findings

__all__ = ["Finding", "Package", "counted", "findings", "read"]
