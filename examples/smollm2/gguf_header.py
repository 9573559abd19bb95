# SPDX-License-Identifier: Apache-2.0
"""Checks the header of a GGUF file against the file's size before the package gguf reads it.

That package believes every count: of a list said to have 2**60 numbers it reads that many, past the
end of the file. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import mmap
import re
import struct
from pathlib import Path

import gguf

# By the format's number of a type: bytes of a number; 8 is a string, 9 a list.
NUMBER_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, LIST = 8, 9
# The reader takes microseconds and hundreds of bytes for each; tokenizers have some 100,000.
MOST_ENTRIES = 1 << 21
MOST_FIELDS = 1 << 13  # files have some 50
PART = re.compile(r"(.*)-\d{5}-of-\d{5}\.gguf")


class HeaderError(ValueError):
    """The header contradicts the file; the text says where."""


class KindError(ValueError):
    """The file is whole, but of a kind that is not read here; the text says which."""


def read(path: Path) -> gguf.GGUFReader:
    """The package's reader of a file whose header fits it. Raises HeaderError, KindError."""
    reader = _read(path)
    number, count = _part(reader)
    if count > 1:
        raise KindError(
            f"it is part {number + 1} of {count} of a model. Try llama-gguf-split --merge"
        )
    return reader


def read_parts(path: Path) -> list[gguf.GGUFReader]:
    """The same of a model that llama.cpp has split: path is its first part, which has the fields;
    the others lie beside it."""
    readers = [_read(path)]
    number, count = _part(readers[0])
    if count == 1:
        return readers
    name = PART.fullmatch(path.name)
    if number or not name:
        raise KindError(
            f"it is part {number + 1} of {count} of a model. Try the first one, as it was named: "
            f"*-00001-of-{count:05}.gguf"
        )
    for k in range(1, count):
        part = path.with_name(f"{name[1]}-{k + 1:05}-of-{count:05}.gguf")
        if not part.exists():
            raise KindError(
                f"it is the first of {count} parts of a model, but {part.name} is not there. Try "
                "downloading it too"
            )
        readers.append(_read(part))
        if _part(readers[k]) != (k, count):
            raise KindError(f"{part.name} is another part than its name says")
    names = [t.name for reader in readers for t in reader.tensors]
    wanted = readers[0].fields["split.tensors.count"].contents()
    if len(set(names)) != wanted or len(names) != wanted:
        raise KindError(f"its {count} parts have {len(names)} tensors, but must have {wanted}")
    return readers


def _part(reader: gguf.GGUFReader) -> tuple[int, int]:
    """Which part of how many the file is."""
    number, count = (
        reader.fields[n].contents() if n in reader.fields else default
        for n, default in (("split.no", 0), ("split.count", 1))
    )
    if type(number) is not int or type(count) is not int or not 0 <= number < max(count, 1):
        raise HeaderError(f"it says that it is part {number!r:.20} of {count!r:.20}")
    return number, max(count, 1)


def _read(path: Path) -> gguf.GGUFReader:
    if path.exists() and not path.is_file():  # reading a pipe or a device may never end
        raise KindError("it is no regular file")
    with path.open("rb") as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise HeaderError("the file is empty") from error
        with data:
            Header(data).check()
    try:
        return gguf.GGUFReader(path)
    except KeyError as error:  # a field that is there twice
        raise HeaderError(str(error.args[0])) from error


class Header:
    def __init__(self, data: mmap.mmap | bytes) -> None:
        self._data = data
        self._at = 0
        self._entries = 0

    def check(self) -> None:
        if self._data[:4] != b"GGUF":
            raise HeaderError("the file does not begin with 'GGUF'")
        self._at = 4
        version = self._number("<I")
        if version and version & 0xFFFF == 0:
            raise KindError("its numbers are big-endian, but little-endian ones are read")
        if version not in (2, 3):
            raise KindError(f"it is of GGUF version {version}, but 2 and 3 are read")
        tensors, fields = self._number("<Q"), self._number("<Q")
        self._count(tensors, 8 + 4 + 4 + 8, "tensors")
        self._count(fields, 8 + 4 + 1, "fields")
        if fields > MOST_FIELDS:
            raise HeaderError(f"there are {fields} fields, but a model has at most {MOST_FIELDS}")
        for _ in range(fields):
            self._string("the name of a field")
            self._value(self._number("<I"), depth=0)
        self._tensors(tensors)

    def _left(self) -> int:
        return len(self._data) - self._at

    def _take(self, count: int, what: str) -> int:
        """Where the next bytes begin."""
        if count > self._left():
            raise HeaderError(
                f"at byte {self._at}, {what} takes {count} bytes, but the file has {self._left()}"
            )
        self._at += count
        return self._at - count

    def _number(self, kind: str) -> int:
        at = self._take(struct.calcsize(kind), "a number")
        number: int = struct.unpack_from(kind, self._data, at)[0]
        return number

    def _count(self, count: int, bytes_each: int, what: str) -> None:
        if count * bytes_each > self._left():
            raise HeaderError(
                f"at byte {self._at}, there are {count} {what}, but the file has {self._left()} "
                "bytes"
            )
        self._entries += count
        if self._entries > MOST_ENTRIES:
            raise HeaderError(f"the header has more than {MOST_ENTRIES} entries")

    def _string(self, what: str) -> None:
        self._take(self._number("<Q"), what)

    def _value(self, kind: int, depth: int) -> None:
        if kind in NUMBER_BYTES:
            self._take(NUMBER_BYTES[kind], "a number")
        elif kind == STRING:
            self._string("a text")
        elif kind == LIST and depth < 2:
            of, count = self._number("<I"), self._number("<Q")
            self._count(count, NUMBER_BYTES.get(of, 8), "numbers or texts of a list")
            if of in NUMBER_BYTES:
                self._take(count * NUMBER_BYTES[of], "a list")
                return
            for _ in range(count):
                self._value(of, depth + 1)
        else:
            raise HeaderError(f"at byte {self._at}, a value is of type {kind}, which is unknown")

    def _tensors(self, count: int) -> None:
        """They may share no bytes: each takes memory of its own once it is read."""
        total = 0
        for _ in range(count):
            self._string("the name of a tensor")
            n_dims = self._number("<I")
            self._count(n_dims, 8, "dimensions")
            n = math.prod(self._number("<Q") for _ in range(n_dims))
            kind, offset = self._number("<I"), self._number("<Q")
            if kind not in gguf.GGMLQuantizationType.__members__.values():
                raise HeaderError(f"a tensor is of type {kind}, which is unknown")
            block, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(kind)]
            total += n // block * block_bytes
            if total > len(self._data) or offset > len(self._data):
                raise HeaderError(
                    f"the tensors take {max(total, offset)} bytes, but the file has "
                    f"{len(self._data)}"
                )
