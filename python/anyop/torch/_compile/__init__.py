# SPDX-License-Identifier: Apache-2.0
"""What users call: the backend of torch.compile, captures, reports, comparisons."""
