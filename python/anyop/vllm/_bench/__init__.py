# SPDX-License-Identifier: Apache-2.0
"""`anyop bench vllm`. *_side.py and calls.py run in the interpreters of both environments."""
