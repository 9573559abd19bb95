# SPDX-License-Identifier: Apache-2.0
"""What the fuzz tests of files share: the same tries each time, so that a check of the same tree
ends alike. FUZZ_SEED=random tries others, FUZZ_SEED=<printed> those again, FUZZ_SECONDS says how
long.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Iterator

ODD = (
    "0", "1", "-1", "2", "7", "64", "0.5", "-0.0", "1e300", "nan", "Infinity", "2147483648",
    "4611686018427387904", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
    "99999999999999999999999", "null", "true", "[]", "{}", "[[[[", '""', '"x"', "[1]", "\\u0000",
)  # fmt: skip
_TOKEN = re.compile(r'\w+|"|\s+|.', re.DOTALL)


def tries(seconds: float) -> Iterator[random.Random]:
    """Random numbers of their own for each try, for so many seconds of CPU time."""
    given = os.environ.get("FUZZ_SEED", "1")
    seed = random.SystemRandom().randrange(1 << 32) if given == "random" else int(given)
    print(f"FUZZ_SEED={seed}")
    end = time.process_time() + float(os.environ.get("FUZZ_SECONDS", seconds))
    tried = 0
    while time.process_time() < end:
        tried += 1
        yield random.Random(seed + tried)
    print(f"{tried} tries")


def mutated(text: str, chance: random.Random) -> str:
    """One to three tokens are others, are gone, or stand twice."""
    tokens = _TOKEN.findall(text)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(tokens))
        match chance.randrange(5):
            case 0:
                tokens[at] = chance.choice(ODD)
            case 1:
                tokens[at] = chance.choice(tokens)
            case 2:
                tokens[at] = ""
            case 3:
                tokens[at] += chance.choice(ODD)
            case _:
                tokens[at] = chr(chance.choice([0, 27, 34, 44, 91, 0x2028, 0x10FFFF]))
    return "".join(tokens)
