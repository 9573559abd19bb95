# SPDX-License-Identifier: Apache-2.0
"""`anyop bench calls --host mindspore`, and MindSpore's rows of `anyop bench hosts`."""

from __future__ import annotations

from anyop.bench.commands.calls_mindspore import measure
from anyop.bench.commands.hosts import HOSTS


def test_every_row_is_measured_beside_the_frameworks_own() -> None:
    rows = {row.what: row for row in measure(calls=5)}
    assert all(row.ns > 0 for row in rows.values())
    ours = [row for row in rows.values() if "anyop" in row.what]
    assert len(ours) == 3 and "anyop.add(a, b), MindSpore's tensors" in rows
    for row in ours:
        assert row.ratio is not None and "anyop" not in row.beside
        assert abs(row.ratio - row.ns / rows[row.beside].ns) <= 0.001
    for host in HOSTS:
        if host.module == "mindspore":
            assert {host.call, host.beside} <= {"", *rows}
