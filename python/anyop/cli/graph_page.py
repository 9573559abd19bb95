# SPDX-License-Identifier: Apache-2.0
"""A picture of a graph as one SVG, or as a page whose loops open and close. Neither needs anything
beside itself."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from html import escape

from anyop.cli.graph_draw import FULL, STYLE, THIN, Drawing, shown_bytes, shown_ns
from anyop.cli.graph_rows import Block, Picture

PAGE = """
body{margin:16px;background:#fff;color:#111827}svg{display:block}
p,table{font:13px system-ui,sans-serif;margin:4px 0 10px}
td,th{padding:1px 14px 1px 0;text-align:right}
td:first-child,th:first-child{text-align:left}
summary{list-style:none;cursor:pointer}summary:hover{background:#eff6ff}
summary::-webkit-details-marker{display:none}details[open]>summary .thin{display:none}
details:not([open])>summary .opened{display:none}
.opened{font:11px monospace;color:#6b7280;padding:2px 8px}
#head{position:sticky;top:0;background:#fff;border-bottom:1px solid #d1d5db;z-index:1}
#tip{position:fixed;left:0;right:0;bottom:0;background:#111827;color:#fff;font:12px monospace;
padding:4px 16px;white-space:pre;min-height:1em}button{font:12px system-ui,sans-serif}
@media (prefers-color-scheme:dark){body,#head{background:#1b1e25;color:#e4e6ea}
summary:hover{background:#262b34}.opened{color:#a4abb8}}
"""
SCRIPT = """
const hot=v=>document.querySelectorAll('[data-v="'+v+'"]');
document.addEventListener('mouseover',e=>{
 document.querySelectorAll('.hot').forEach(x=>x.classList.remove('hot'));
 const at=e.target.closest('[data-v]');
 if(at&&at.dataset.v!=='-1')hot(at.dataset.v).forEach(x=>x.classList.add('hot'));
 const told=e.target.closest('svg *')&&(e.target.closest('text')||e.target).querySelector('title');
 document.getElementById('tip').textContent=told?told.textContent:'';
});
const all=open=>document.querySelectorAll('details').forEach(d=>d.open=open);
"""


def subtitle(picture: Picture) -> str:
    p = picture
    parts = [f"{name} = {size}" for name, size in p.sizes.items()]
    parts.append(f"{len(p.nodes)} nodes")
    if p.memory:
        parts.append(
            f"memory {shown_bytes(p.memory['peak_bytes'])}, lower bound "
            f"{shown_bytes(p.memory['bound_bytes'])}, without sharing "
            f"{shown_bytes(p.memory['unshared_bytes'])}"
        )
    parts.append(f"state {shown_bytes(p.state_bytes)}")
    if p.ns:
        parts.append(f"kernels one by one {shown_ns(p.ns)}")
    if p.call_ns:
        parts.append(f"a call {shown_ns(p.call_ns)}")
    if p.measured_on:
        parts.append(p.measured_on)
    return " · ".join(parts)


def _label(block: Block) -> str:
    return f"turn {block.turn} of {block.turns}: {block.end - block.begin} nodes"


def narrow(picture: Picture) -> str:
    """The same as a phone shows it."""
    return svg(picture, is_narrow=True)


def svg(picture: Picture, is_narrow: bool = False) -> str:
    """All of it; of loops the first turn in full."""
    d, parts = Drawing(picture, is_narrow), []
    parts.append(
        f'<text x="8" y="20" style="font-size:15px;font-weight:700">{escape(picture.name)}</text>'
    )
    lines = textwrap.wrap(subtitle(picture), 62 if is_narrow else 1000)
    parts += [
        f'<text class="dim" x="8" y="{37 + 16 * i}">{escape(line)}</text>'
        for i, line in enumerate(lines)
    ]
    at = 38 + 16 * len(lines)
    parts.append(d.legend(at))
    y = float(at + (58 if is_narrow else 42))
    parts += d.head(y - 6)
    for b in picture.blocks:
        if b.turn <= 1:
            parts += d.full(b.begin, b.end, y)
            y += (b.end - b.begin) * FULL
        else:
            parts += d.thin(b.begin, b.end, _label(b), y)
            y += (b.end - b.begin) * THIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{d.width:.0f}" height="{y + 8:.0f}">'
        f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>'
        + "\n".join(parts)
        + "</svg>\n"
    )


def html(picture: Picture) -> str:
    """A page; loops show their first turn, the others open with a click."""
    d = Drawing(picture)

    def drawn(parts: list[str], height: float, kind: str = "") -> str:
        return f'<svg class="{kind}" width="{d.width:.0f}" height="{height:.0f}">' + (
            "\n".join(parts) + "</svg>"
        )

    body = []
    for b in picture.blocks:
        n = b.end - b.begin
        full = drawn(list(d.full(b.begin, b.end)), n * FULL)
        if not b.turn:
            body.append(full)
            continue
        thin = drawn(list(d.thin(b.begin, b.end, _label(b))), n * THIN, "thin")
        body.append(
            f"<details{' open' if b.turn == 1 else ''}><summary>{thin}"
            f'<div class="opened">▾ {_label(b)}</div></summary>{full}</details>'
        )
    head = drawn([d.legend(14), *d.head(46)], 52)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(picture.name)}</title><style>{STYLE}{PAGE}</style></head><body>"
        f"<h1>{escape(picture.name)}</h1><p>{escape(subtitle(picture))}</p>{_operators(picture)}"
        '<p><button onclick="all(true)">open all</button> '
        '<button onclick="all(false)">close all</button></p>'
        f'<div id="head">{head}</div>' + "\n".join(body) + f'<div id="tip"></div>'
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def by_operator(picture: Picture) -> list[tuple[str, int, float, float]]:
    """(operator, nodes, ns, share), the longest first."""
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0, 0, 0])
    for row in picture.nodes:
        for k, x in enumerate((1, row.ns, row.share)):
            sums[row.op][k] += x
    rows = [(op, int(n), ns, share) for op, (n, ns, share) in sums.items()]
    return sorted(rows, key=lambda r: (-r[2], -r[1], r[0]))


def _operators(picture: Picture) -> str:
    has_times = picture.ns > 0
    head = "<th>operator</th><th>nodes</th>" + ("<th>time</th><th>share</th>" if has_times else "")
    lines = []
    for op, n, ns, share in by_operator(picture):
        times = f"<td>{shown_ns(ns)}</td><td>{share:.1%}</td>" if has_times else ""
        lines.append(f"<tr><td>{escape(op)}</td><td>{n}</td>{times}</tr>")
    return (
        f"<details><summary><p>▸ operators</p></summary><table><tr>{head}</tr>"
        + "".join(lines)
        + "</table></details>"
    )
