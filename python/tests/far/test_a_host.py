# SPDX-License-Identifier: Apache-2.0
"""A host of `anyop/python_host.h` whose tensors lie on a device: its calls go to the stream that it
names. The record is filled with ctypes, and its tensors hold torch's."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import threading
import time
from collections.abc import Iterator
from ctypes import POINTER, PYFUNCTYPE, Structure, c_char_p, c_int, c_int64, c_void_p, py_object
from typing import Any

import anyop
import anyop.hosting
import far_torch
import numpy as np
import pytest
import torch

FAR_TYPE, FAR = 12, torch.device("far:0")
anyop.load(far_torch.LIBRARY)


class Device(Structure):
    _fields_ = [("type", ctypes.c_int32), ("number", ctypes.c_int32)]


class DType(Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", DType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class View(Structure):
    _fields_ = [
        ("tensor", DLTensor),
        ("shape", c_int64 * 8),
        ("strides", c_int64 * 8),
        ("reason", c_char_p),
    ]


IsTensor = PYFUNCTYPE(c_int, py_object)
Look = PYFUNCTYPE(c_int, py_object, c_int, POINTER(View))
Allocate = PYFUNCTYPE(py_object, DType, c_int, POINTER(c_int64), POINTER(View))
StreamOf = PYFUNCTYPE(c_void_p, Device)
AllocateOn = PYFUNCTYPE(py_object, Device, DType, c_int, POINTER(c_int64), POINTER(View))


class Record(Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        *((name, c_char_p) for name in ("module", "noun", "from_numpy", "to_numpy")),
        ("is_tensor", IsTensor),
        ("view", Look),
        ("allocate", Allocate),
        *((name, c_void_p) for name in ("written", "lend", "dtype_object", "to_dtype", "threads")),
        *((name, c_char_p) for name in ("sees_calls", "number_advice")),
        ("stream", StreamOf),
        ("allocate_on", AllocateOn),
    ]


class Mine:
    """A tensor of a framework called mine."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


class Old(Mine):
    """One of a framework whose host knows no devices."""


class Told(Mine):
    """One of a framework that wants to know what is written."""


written: list[Any] = []


def fill(view: View, t: torch.Tensor) -> None:
    to = view.tensor
    to.data, to.ndim = t.data_ptr(), t.dim()
    to.device = Device(1, 0) if t.is_cpu else Device(FAR_TYPE, t.device.index)
    to.dtype = DType(2 if t.is_floating_point() else 0, 8 * t.itemsize, 1)
    view.shape[: t.dim()], view.strides[: t.dim()] = t.shape, t.stride()
    to.shape = ctypes.cast(view.shape, POINTER(c_int64))
    to.strides = ctypes.cast(view.strides, POINTER(c_int64))


def made(kind: type[Mine], device: Any, dtype: DType, rank: int, shape: Any, view: Any) -> Mine:
    of = {(2, 32): torch.float32, (0, 64): torch.int64}[dtype.code, dtype.bits]
    tensor = torch.empty(tuple(shape[:rank]), dtype=of, device=device)
    fill(view.contents, tensor)
    return kind(tensor)


def record(kind: type[Mine]) -> Record:
    def look(object: Mine, _: int, view: Any) -> int:
        fill(view.contents, object.tensor)
        return 0

    given = Record(ctypes.sizeof(Record), kind.__name__.lower().encode(), b"tensor", b"", b"")
    given.is_tensor = IsTensor(lambda o: type(o) is kind)
    given.view = Look(look)
    given.allocate = Allocate(lambda *of: made(kind, "cpu", *of))
    given.stream = StreamOf(
        lambda device: far_torch.native(torch.accelerator.current_stream(device.number))
    )
    given.allocate_on = AllocateOn(lambda device, *of: made(kind, f"far:{device.number}", *of))
    return given


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = py_object, [c_void_p, c_char_p, c_void_p]
RECORDS = {kind: record(kind) for kind in (Mine, Old, Told)}  # live as long as the process
RECORDS[Old].size = Record.stream.offset  # built when the record ended there
tell = PYFUNCTYPE(None, py_object)(written.append)
RECORDS[Told].written = ctypes.cast(tell, c_void_p)
for one in RECORDS.values():
    anyop.hosting.register(new_capsule(ctypes.addressof(one), b"anyop.python_host", None))


def current() -> torch.Stream:
    return torch.accelerator.current_stream()


def test_a_call_is_work_on_the_stream_that_the_host_names() -> None:
    x, one = Mine(torch.ones(4, device=FAR)), Mine(torch.ones(4, device=FAR))
    torch.accelerator.synchronize()
    s = torch.Stream(device=FAR)
    with far_torch.held(current()), s:
        y = anyop.add(x, one)
        assert type(y) is Mine and y.tensor.device == FAR
        assert y.tensor.cpu().tolist() == [2] * 4  # waits for s alone
    with far_torch.held(s), s:
        z = anyop.add(x, one)
        assert not s.query()  # it returned before its work began
    with s:
        assert z.tensor.cpu().tolist() == [2] * 4


def test_a_graph_replays_on_the_stream_that_the_host_names() -> None:
    def thrice(x: Any) -> Any:
        return anyop.add(anyop.add(x, x), x)

    graph = anyop.graph(thrice, "f32[2, 3]")
    x = Mine(torch.ones(2, 3, device=FAR))
    torch.accelerator.synchronize()
    s = torch.Stream(device=FAR)
    with far_torch.held(current()), s:
        assert graph(x).tensor.cpu().tolist() == [[3] * 3] * 2


PLACES = ["cpu", "far:0"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "other", [lambda: torch.ones(8), lambda: torch.ones(4), lambda: torch.ones(8, 1)]
)
def test_state_that_gets_other_memory_or_another_form_is_refused(place: str, other: Any) -> None:
    w, x = Mine(torch.ones(8, device=place)), Mine(torch.ones(2, 8, device=place))
    graph = anyop.graph(lambda x: anyop.rms_norm(x, w), "f32[n, 8]")
    graph(x)
    first, w.tensor = w.tensor, other().to(place)
    with pytest.raises(ValueError, match="the state weight was resized or given other memory"):
        graph(x)
    w.tensor = first
    assert graph(x).tensor.cpu().shape == (2, 8)
    w.tensor = first.t() if first.dim() == 2 else first.as_strided((8,), (0,))
    with pytest.raises(ValueError, match="the state weight was resized or given other memory"):
        graph(x)


@pytest.mark.parametrize("place", PLACES)
def test_what_a_graph_writes_is_told_to_the_host(place: str) -> None:
    ops = anyop.load(far_torch.LIBRARY.with_name("anyop_testing.so"))
    sum_, x = Told(torch.zeros(4, device=place)), Told(torch.ones(4, device=place))

    def step(x: Any) -> Any:
        ops.accumulate(x, sum_)
        return anyop.add(x, x)

    graph = anyop.graph(step, "f32[4]")
    for call in (lambda: ops.accumulate(x, sum_), lambda: graph(x)):
        written.clear()
        call()
        assert written == [sum_]
    assert sum_.tensor.cpu().tolist() == [2] * 4


def test_a_graph_gives_its_state_on_a_device_as_it_is() -> None:
    w, x = Mine(torch.full((8,), 2.0, device=FAR)), Mine(torch.ones(2, 8, device=FAR))
    graph = anyop.graph(lambda x: anyop.rms_norm(x, w, 0.0), "f32[n, 8]")
    assert graph.state == {"weight": w}
    again = anyop.Graph.parse(str(graph), graph.state)
    assert again(x).tensor.cpu().tolist() == [[2] * 8] * 2
    with pytest.raises(ValueError, match="weight is on far:0, but x is on cpu"):
        again(np.ones((2, 8), np.float32))
    with pytest.raises(anyop.Unsupported, match="weight is on far:0, but a saved graph holds"):
        copy.deepcopy(graph)


@pytest.mark.parametrize("place", PLACES)
def test_a_graph_of_numbers_makes_results_where_its_state_lies(place: str) -> None:
    w = Mine(torch.ones(4, device=place))
    y = anyop.graph(lambda e: anyop.rms_norm(w, None, e), "float")(0.0)
    assert str(y.tensor.device) == place and y.tensor.cpu().tolist() == [1] * 4


def test_a_graph_is_described_and_timed_where_its_state_lies() -> None:
    x = torch.ones(64, 256)

    def least_ns(place: str) -> float:
        w = Mine(torch.ones(256, 256, device=place))
        graph = anyop.graph(lambda x: anyop.linear(anyop.relu2(x), w), "f32[n, 256]")
        assert graph.memory(n=64).peak_bytes >= 64 * 256 * 4
        assert graph.buffers(n=64) and "f32[64, 256]" in str(graph.describe(n=64))
        times: list[Any] = graph.profile(Mine(x.to(place)), repeats=5)
        return float(times[-1].ns_min)

    assert least_ns("far:0") > least_ns("cpu") / 4  # not only of putting it on the stream


def test_results_lie_where_the_arguments_lie() -> None:
    for place in ("cpu", "far:0", "far:1"):
        y = anyop.rms_norm(Mine(torch.ones(2, 8, device=place)), eps=0.0)
        assert str(y.tensor.device) == place and y.tensor.cpu().tolist() == [[1] * 8] * 2


def test_results_lie_where_what_is_not_planned_lies() -> None:
    ops = anyop.load(far_torch.LIBRARY.with_name("anyop_testing.so"))
    x, starts = Mine(torch.arange(6.0).to(FAR)), Mine(torch.tensor([0, 2, 6]))
    for y in (ops.planned_sum(x, starts), ops.planned_first(starts, x)):
        assert y.tensor.device == FAR and y.tensor.cpu().tolist() == [1, 14]


def test_what_goes_wrong_later_is_the_error_of_a_later_call_on_the_stream() -> None:
    ids = Mine(torch.tensor([0, 9], device=FAR))
    table, x = Mine(torch.ones(4, 2, device=FAR)), Mine(torch.ones(2, device=FAR))
    anyop.embedding(ids, table)
    far_torch.finish(current())
    with pytest.raises(ValueError) as error:
        anyop.add(x, x)
    assert str(error.value) == (
        "embedding: ids[1] is 9, but must be less than 4 (v). This is of earlier work on far:0, "
        "whose results are not to be used."
    )
    assert anyop.add(x, x).tensor.cpu().tolist() == [2, 2]


@contextlib.contextmanager
def held_by_another_thread(stream: torch.Stream) -> Iterator[None]:
    """Until a thread of Python, which needs the interpreter's lock, lets the stream go on."""
    begun = threading.Event()

    def hold() -> None:
        with far_torch.held(stream):
            begun.set()
            for _ in range(20):
                time.sleep(0.005)  # each time the lock is given back and taken again

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        thread.join()


@anyop.define("far_twice(x: f32[m, n]) -> (y: f32[m, n])", library="far_tests_of_a_host")
def far_twice(x: Any) -> Any:
    return x * 2


def look(ids: Any, table: Any) -> Any:
    return anyop.embedding(ids, table)


@pytest.mark.parametrize("way", ["host", "strict", "fallback", "graph"])
def test_a_call_that_waits_lets_other_threads_of_python_run(way: str) -> None:
    table, ids = Mine(torch.ones(4, 4, device=FAR)), Mine(torch.tensor([0, 1], device=FAR))
    torch.accelerator.synchronize()
    with held_by_another_thread(current()):
        if way == "fallback":
            with anyop.fallback("cpu"):
                y, wanted = far_twice(table), [[2.0] * 4] * 4
        else:
            scope = anyop.strict() if way == "strict" else anyop.data_checks("host")
            call = anyop.graph(look, "i64[t]", "f32[v, d]") if way == "graph" else look
            with scope:
                y, wanted = call(ids, table), [[1.0] * 4] * 2
    assert y.tensor.cpu().tolist() == wanted


def test_tensors_of_two_devices_are_refused_by_name() -> None:
    with pytest.raises(ValueError) as error:
        anyop.add(Mine(torch.ones(2, device=FAR)), Mine(torch.ones(2)))
    assert "far:0" in str(error.value) and "cpu" in str(error.value)


def test_a_host_that_names_no_stream_has_its_device_tensors_refused() -> None:
    assert anyop.add(Old(torch.ones(2)), Old(torch.ones(2))).tensor.tolist() == [2, 2]
    with pytest.raises(ValueError) as error:
        anyop.add(Old(torch.ones(2, device=FAR)), Old(torch.ones(2, device=FAR)))
    assert str(error.value) == "add: x lies on another device, but must be on the CPU."


def test_arrays_of_numpy_are_as_before() -> None:
    assert anyop.add(np.ones(2, "f4"), np.ones(2, "f4")).tolist() == [2, 2]
