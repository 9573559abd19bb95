# SPDX-License-Identifier: Apache-2.0
"""The rules of the house that no compiler knows; prints every breach and fails if there is one.

    python tools/house.py                  all rules on this tree and on what was built of it
    python tools/house.py layers names     only these rules
    python tools/house.py --list           the rules, a line each
    python tools/house.py --json           the breaches for programs

A rule is a function in tools/house_rules/ from a tree to breaches, tried on planted ones by
python/tests/test_house.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from house_rules import built, cpp_code, documents, layers, operators, pages, python_code, texts
from house_rules.tree import Breach, Rule, Tree

ROOT = Path(__file__).resolve().parent.parent
MODULES = (texts, operators, python_code, cpp_code, layers, documents, pages, built)
RULES: dict[str, Rule] = {rule.__name__: rule for module in MODULES for rule in module.RULES}


def breaches(tree: Tree, rules: Sequence[str] = ()) -> list[Breach]:
    """What breaks the rules that are named, or any rule."""
    return [
        dataclasses.replace(breach, rule=name)
        for name in rules or RULES
        for breach in RULES[name](tree)
    ]


def main() -> int:
    """Exit status 1 if a rule is broken."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rules", nargs="*", metavar="RULE", help="only these rules")
    parser.add_argument("--list", action="store_true", help="print the rules")
    parser.add_argument("--json", action="store_true", help="print breaches as JSON")
    parser.add_argument("--root", type=Path, default=ROOT, help="another tree")
    given = parser.parse_args()
    if unknown := [name for name in given.rules if name not in RULES]:
        parser.error(f"no rule is called {unknown[0]}. Try --list.")
    if given.list:
        rows = (f"{name:22}{(rule.__doc__ or '').partition(chr(10))[0]}" for name, rule in
                RULES.items())  # fmt: skip
        print("\n".join(rows))
        return 0
    tree = Tree(given.root.resolve())
    found = breaches(tree, given.rules)
    if given.json:
        print(json.dumps([dataclasses.asdict(breach) for breach in found], indent=1))
    else:
        count = len(given.rules or RULES)
        summary = f"{len(operators.operators(tree))} operators, {count} rules, no breach"
        print("\n".join(map(str, found)) or summary)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
