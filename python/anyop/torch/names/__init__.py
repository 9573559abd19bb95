# SPDX-License-Identifier: Apache-2.0
"""What torch's world calls things, and what anyop calls them: data, no code."""
