# SPDX-License-Identifier: Apache-2.0
"""The operators as torch's dispatcher, torch.compile and Inductor know them."""
