# SPDX-License-Identifier: Apache-2.0
from anyop.cli import main

main()
