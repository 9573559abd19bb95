# SPDX-License-Identifier: Apache-2.0
"""What the compiler says of a file of kernels, with the lines of that file."""

from __future__ import annotations

import re
from dataclasses import dataclass

from anyop import _anyop
from anyop.ascend.source import Source

_MOST = 10
_ERROR = re.compile(r"^(.+?):(\d+):(?:\d+:)? (?:fatal )?error: (.*)")
_PLACE = re.compile(r"^(.+?):(\d+):")
_CANDIDATE = re.compile(r"note: candidate: '(?P<name>[\w:<>, ]*?(?P<last>\w+))\((?P<rest>.*)'$")
_MOST_CANDIDATES = 3  # more of them say less than the call does
_EXPLAINED = "static assertion failed"  # what else the line has follows from it
_LACKING = re.compile(r"(\S+): No such file")
# The compiler's names for things, and those by which a kernel's author knows them.
_NAMES = (
    (r"AscendC::anyop_ascend_\w+::", ""),
    (r"\b_Float16\b", "half"),
    (r"\banyop_ascend::", ""),
)


@dataclass(frozen=True)
class Refused:
    """line: of the file itself, where the compiler names one; else 0."""

    line: int
    text: str


class RefusedError(_anyop.InvalidArgument):
    """The compiler refuses the file. errors: what it says, at most ten."""

    def __init__(self, source: Source, output: str) -> None:
        self.errors = errors(source, output)
        name = source.path.name
        lines = [f"{name}:{e.line}: {e.text}" if e.line else e.text for e in self.errors]
        text = f"{name}: the compiler refuses it:\n" + "\n".join(lines)
        lacking = _LACKING.search(output)
        if lacking:
            text += (
                f"\n{lacking[1]} is no header that anyop has. If it is yours, try "
                "--include-folder; what anyop has of the vendor's headers stands in docs/ascend.md."
            )
        super().__init__(text)


def errors(source: Source, output: str) -> tuple[Refused, ...]:
    """An error in a header of ours is told with the line that leads there."""
    own = str(source.path)
    found: list[Refused] = []
    line_before = 0
    lines = output.splitlines()
    for i, text in enumerate(lines):
        place, error = _PLACE.match(text), _ERROR.match(text)
        if not error:
            if place and place[1] == own:
                line_before = int(place[2])
            continue
        line = int(error[2]) if error[1] == own else line_before
        said = _in_their_words(error[3]) + _candidates(error[3], lines[i + 1 :])
        if error[1] != own:
            said += f" ({error[1].rpartition('/')[2]}:{error[2]})"
        found.append(Refused(line, said))
        line_before = 0
    if any(one.line for one in found):  # the others follow from these
        found = [one for one in found if one.line]
    explained = {one.line for one in found if _EXPLAINED in one.text}
    found = [one for one in found if one.line not in explained or _EXPLAINED in one.text]
    return tuple(dict.fromkeys(found))[:_MOST] or (Refused(0, output.strip()),)


def _candidates(error: str, behind: list[str]) -> str:
    """What could have been called, where it is not much. behind: the lines behind the error."""
    if not error.startswith("no matching function"):
        return ""
    found: list[str] = []
    for text in behind:
        if _ERROR.match(text):
            break
        candidate = _CANDIDATE.search(text)
        # Copies are no choice.
        if candidate and not re.search(rf"\b{candidate['last']}&&?\)$", candidate["rest"]):
            said = _in_their_words(f"{candidate['last']}({candidate['rest']}")
            found.append(said.replace(", Site)", ")"))  # which no kernel passes
    if not 0 < len(found) <= _MOST_CANDIDATES:
        return ""
    return f"; there is {' and '.join(dict.fromkeys(found))}"


def _in_their_words(text: str) -> str:
    for name, word in _NAMES:
        text = re.sub(name, word, text)
    return text
