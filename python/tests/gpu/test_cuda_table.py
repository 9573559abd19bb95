# SPDX-License-Identifier: Apache-2.0
"""The table of the device library, called as the runtime calls it, without torch."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int32, c_uint64, c_void_p
from typing import Any

import pytest
from card import LIBRARY, ON_CARD

pytestmark = ON_CARD
HOST = -1
NAMES = [
    "error_text",
    "count",
    "properties",
    "allocate",
    "release",
    "copy",
    "fill",
    "default_stream",
    "create_stream",
    "destroy_stream",
    "create_event",
    "destroy_event",
    "record_event",
    "wait_event",
    "query_event",
    "synchronize_event",
    "elapsed",
    "synchronize",
    "late_error",
    "activate",
    "submit",
    "check_indices",
    "failed",
    "pack",
    "unpack",
]


class Table(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("word", c_char_p),
        ("dlpack_type", c_int32),
        ("host_can_read", c_int32),
        ("runs", c_char_p),
        *((name, c_void_p) for name in NAMES),
    ]


class Info(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("name", c_char_p),
        ("device", POINTER(Table)),
    ]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", POINTER(ctypes.c_int64)),
        ("strides", POINTER(ctypes.c_int64)),
        ("byte_offset", c_uint64),
    ]


class Check(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("is_offsets", c_int32),
        ("limit", ctypes.c_int64),
        ("indices", POINTER(DLTensor)),
        ("name", c_char_p),
        ("must", c_char_p),
    ]


class Device:
    """Its functions by name; what they refuse is raised."""

    def __init__(self) -> None:
        library = ctypes.CDLL(str(LIBRARY))
        library.anyop_device_library.restype = POINTER(Info)
        self.table = library.anyop_device_library().contents.device.contents
        self.error = ctypes.CFUNCTYPE(c_char_p)(self.table.error_text)

    def __call__(self, name: str, *args: Any) -> None:
        kinds = [type(a) if isinstance(a, ctypes._SimpleCData) else c_void_p for a in args]
        function = ctypes.CFUNCTYPE(c_int, *kinds)(getattr(self.table, name))
        code = function(*args)
        assert code == 0, f"{name}: {self.error().decode()}"

    def late(self, stream: Any = None) -> str:
        text = ctypes.create_string_buffer(1000)
        kinds = (c_int32, c_void_p, c_int32, c_void_p, c_uint64)
        late = ctypes.CFUNCTYPE(c_int, *kinds)(self.table.late_error)
        return text.value.decode() if late(0, stream, stream is None, text, 1000) else ""


def i32(n: int) -> Any:
    return c_int32(n)


@pytest.fixture
def device() -> Device:
    return Device()


@pytest.fixture
def stream(device: Device) -> Any:
    handle = c_void_p()
    device("create_stream", i32(0), byref(handle))
    yield handle
    device("destroy_stream", handle)


def memory(device: Device, stream: Any, n: int) -> c_void_p:
    at = c_void_p()
    device("allocate", i32(0), stream, c_uint64(n), byref(at))
    assert at.value and at.value % 64 == 0
    return at


def bytes_of(device: Device, stream: Any, at: Any, n: int) -> bytes:
    to = ctypes.create_string_buffer(n)
    device("copy", stream, i32(HOST), to, i32(0), at, c_uint64(n))
    device("synchronize", i32(0), stream)
    return to.raw


def test_memory_goes_there_and_back(device: Device, stream: Any) -> None:
    given = bytes(range(256)) * 40
    at, other = memory(device, stream, len(given)), memory(device, stream, len(given))
    n = c_uint64(len(given))
    device("copy", stream, i32(0), at, i32(HOST), ctypes.create_string_buffer(given), n)
    device("copy", stream, i32(0), other, i32(0), at, n)
    assert bytes_of(device, stream, other, len(given)) == given
    for block in (at, other):
        device("release", i32(0), stream, block)
    default = ctypes.CFUNCTYPE(c_void_p, c_int32)(device.table.default_stream)(0)
    for s in (c_void_p(default), c_void_p()):
        block = memory(device, s, 100)
        device(
            "copy",
            s,
            i32(0),
            block,
            i32(HOST),
            ctypes.create_string_buffer(b"x" * 100),
            c_uint64(100),
        )
        assert bytes_of(device, s, block, 100) == b"x" * 100
        device("release", i32(0), s, block)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 12, 64])
def test_fill_repeats_an_item(device: Device, stream: Any, size: int) -> None:
    item = bytes(range(1, size + 1))
    at = memory(device, stream, 1001 * size)
    device("fill", stream, at, c_uint64(1001), ctypes.create_string_buffer(item), c_uint64(size))
    assert bytes_of(device, stream, at, 1001 * size) == item * 1001
    device("release", i32(0), stream, at)


def test_events_order_streams_and_tell_times(device: Device, stream: Any) -> None:
    other, events = c_void_p(), [c_void_p(), c_void_p()]
    device("create_stream", i32(0), byref(other))
    for event in events:
        device("create_event", i32(0), byref(event))
        done = c_int32(0)
        device("query_event", event, byref(done))
        assert done.value == 1  # never recorded
    n = 64 << 20
    at = memory(device, stream, n)
    device("record_event", events[0], stream)
    for value in range(20):
        device(
            "fill",
            stream,
            at,
            c_uint64(n),
            ctypes.create_string_buffer(bytes([value])),
            c_uint64(1),
        )
    device("record_event", events[1], stream)
    device("wait_event", events[1], other)
    assert bytes_of(device, other, at, 4) == bytes([19] * 4)
    device("synchronize_event", events[1])
    milliseconds = c_double()
    device("elapsed", events[0], events[1], byref(milliseconds))
    assert 0 < milliseconds.value < 1000
    device("release", i32(0), other, at)
    for event in events:
        device("destroy_event", event)
    device("destroy_stream", other)
    device("synchronize", i32(0), c_void_p())


def tensor(at: Any, shape: list[int], strides: list[int] | None, bits: int, code: int = 0) -> Any:
    kind = ctypes.c_int64 * len(shape)
    steps = kind(*strides) if strides else None
    return DLTensor(at, 2, 0, len(shape), code, bits, 1, kind(*shape), steps, 0)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_pack_and_unpack_are_inverse(device: Device, stream: Any, bits: int) -> None:
    size, n = bits // 8, 4 * 6 * 10
    given = bytes(i * 7 % 251 for i in range(n * size))
    at, packed = memory(device, stream, n * size), memory(device, stream, n * size)
    device(
        "copy",
        stream,
        i32(0),
        at,
        i32(HOST),
        ctypes.create_string_buffer(given),
        c_uint64(n * size),
    )
    turned = tensor(at, [10, 4, 6], [1, 60, 10], bits)  # of [4, 6, 10]
    device("pack", stream, byref(turned), packed)
    expected = b"".join(
        given[(a * 60 + b * 10 + c) * size :][:size]
        for c in range(10)
        for a in range(4)
        for b in range(6)
    )
    assert bytes_of(device, stream, packed, n * size) == expected
    device("fill", stream, at, c_uint64(n * size), ctypes.create_string_buffer(b"\0"), c_uint64(1))
    device("unpack", stream, packed, byref(turned))
    assert bytes_of(device, stream, at, n * size) == given
    for block in (at, packed):
        device("release", i32(0), stream, block)


@pytest.mark.parametrize(
    ("entries", "offsets", "limit", "told"),
    [
        ([0, 3, 2], 0, 4, ""),
        ([0, 4, 9], 0, 4, "op: ids[1] is 4, but must be less than 4 (n)."),
        ([-7, 3, 3], 0, 4, ""),
        ([0, 3, 4], 1, 4, ""),
        ([1, 3, 4], 1, 4, "op: ids[0] is 1, but must be 0."),
        ([0, 3, 2], 1, 4, "op: ids[2] is 2, but must not be less than ids[1], which is 3."),
        ([0, 3, 5], 1, 4, "op: ids[2] is 5, but must be less than 4 (n)."),
    ],
)
@pytest.mark.parametrize("bits", [32, 64])
def test_indices_are_looked_at(
    device: Device, stream: Any, entries: list[int], offsets: int, limit: int, told: str, bits: int
) -> None:
    kind = ctypes.c_int32 if bits == 32 else ctypes.c_int64
    host = (kind * 3)(*entries)
    at = memory(device, stream, ctypes.sizeof(host))
    device("copy", stream, i32(0), at, i32(HOST), host, c_uint64(ctypes.sizeof(host)))
    indices = tensor(at, [3], None, bits)
    check = Check(
        ctypes.sizeof(Check), offsets, limit, ctypes.pointer(indices), b"op: ids",
        b", but must be less than 4 (n).",
    )  # fmt: skip
    failed = ctypes.CFUNCTYPE(c_void_p, c_void_p)(device.table.failed)(stream)
    for _ in range(2):
        device("check_indices", stream, byref(check))
        assert bool(int.from_bytes(bytes_of(device, stream, failed, 4), "little")) == bool(told)
        assert device.late(stream) == told
        assert device.late(stream) == ""
        assert bytes_of(device, stream, failed, 4) == b"\0\0\0\0"
    device("release", i32(0), stream, at)


def test_the_error_of_a_stream_that_is_gone_stays_with_the_card(device: Device) -> None:
    stream = c_void_p()
    device("create_stream", i32(0), byref(stream))
    host = (ctypes.c_int64 * 1)(9)
    at = memory(device, stream, 8)
    device("copy", stream, i32(0), at, i32(HOST), host, c_uint64(8))
    indices = tensor(at, [1], None, 64)
    check = Check(ctypes.sizeof(Check), 0, 4, ctypes.pointer(indices), b"op: ids", b", no.")
    device("check_indices", stream, byref(check))
    device("release", i32(0), stream, at)
    device("destroy_stream", stream)
    device("synchronize", i32(0), c_void_p())
    assert device.late() == "op: ids[0] is 9, no."
    assert device.late() == ""


def test_memory_that_is_not_there_is_refused_with_its_bytes(device: Device, stream: Any) -> None:
    with pytest.raises(AssertionError, match=f"allocate: out of memory: {1 << 50} bytes"):
        memory(device, stream, 1 << 50)
    memory(device, stream, 64)
