# SPDX-License-Identifier: Apache-2.0
"""Random torch programs, run by torch and by the backend anyop, and compared in all that shows.

cd python/tests/torch && python -m fuzz --seeds 0:5000 --minimize
"""
