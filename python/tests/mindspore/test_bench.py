# SPDX-License-Identifier: Apache-2.0
"""`anyop bench calls --host mindspore`, and MindSpore's rows of `anyop bench hosts`."""

from __future__ import annotations

import pytest
from anyop.bench.commands import hosts
from anyop.bench.commands.calls_mindspore import BUILT, CUSTOM, OURS, measure
from anyop.bench.commands.hosts import HOSTS
from anyop.bench.commands.interleave import EACH


def test_every_row_is_measured_beside_the_frameworks_own() -> None:
    rows = {row.what: row for row in measure(calls=5)}
    # A node of a graph is a difference of two times, which so few calls may turn around.
    assert all(row.ns > 0 for row in rows.values() if not row.what.startswith("each"))
    ours = [row for row in rows.values() if "anyop" in row.what or row.what == EACH]
    assert len(ours) == 5 and OURS in rows and CUSTOM in rows
    for row in ours:
        assert row.ratio is not None and "anyop" not in row.beside
        assert abs(row.ratio - row.ns / rows[row.beside].ns) <= 0.001
    for host in HOSTS:
        if host.module == "mindspore" and "CustomOpBuilder" not in host.call:
            assert {host.call, host.beside} <= {"", *rows}
        elif host.module == "mindspore":
            assert host.call == f"{OURS}, beside CustomOpBuilder" and host.beside == BUILT


def test_rows_without_their_opponent_are_shown_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    of = [host for host in HOSTS if host.module == "mindspore"]
    told = [{"what": host.call, "ns": 1000.0} for host in of if "beside" not in host.call]
    told.append({"what": "mindspore.ops.add(a, b)", "ns": 8000.0})
    monkeypatch.setattr(hosts, "_bench", lambda *arguments: (told, ""))
    rows, skipped = {host.name: hosts.Row(host.name) for host in of}, list[str]()
    hosts._time_calls(of, rows, skipped)
    found = [(row.call_ns, row.beside, row.call_ratio) for row in rows.values()]
    assert (1000.0, "mindspore.ops.add(a, b)", 0.125) in found
    assert (1000.0, "", None) in found and (None, "", None) in found and not skipped
