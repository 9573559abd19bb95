# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial

import anyop
from anyop.bench import Case, each_dtype, normal

SIZES = [(1, 49152), (16, 128256)]


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for shape in SIZES:
            x = normal(shape, dtype)
            yield Case(
                f"{name}{list(shape)}",
                {"x": x},
                ours=lambda a: partial(anyop.argmax, a.x),
                numpy=lambda a: partial(a.x.argmax, -1),
                torch=lambda t, a: t.call(lambda v: v.argmax(-1), a.x),
                others={"vllm": "largest"} if name == "f32" else {},
                goal="small operator",
                moved=x.nbytes,
                tolerance=0,
            )
