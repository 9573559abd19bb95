# SPDX-License-Identifier: Apache-2.0
"""JAX as a host: every operator of every loaded library takes JAX arrays, eager and traced.

    y = anyop.rms_norm(x, weight)                          # JAX arrays in, JAX arrays out
    step = jax.jit(lambda x: anyop.rms_norm(x, weight))    # one custom call in the program
    jax.grad(...), jax.vmap(...), jax.checkpoint(...)      # by the operators' own rules

An operator that writes arguments returns them first, and leaves the arrays that it was given as
they were; where these are donated to `jax.jit`, it writes in place. docs/jax.md tells of types,
gradients, batches, sizes that are symbols, and devices.
"""

from __future__ import annotations

import re

import anyop
from anyop import _anyop
from anyop.hosting import not_installed, register

try:
    import jax
except ModuleNotFoundError as error:
    raise not_installed(error, "jax", "jax") from None
from anyop.jax import _batch, _gradient, _program
from anyop.jax._calls import RULES, call

__all__ = ["export_checks"]

# The first version that was tested, and the first behind it that was not. The host uses modules of
# jax._src, for which JAX promises nothing.
_VERSIONS = ((0, 10, 2), (0, 11, 0))


def export_checks() -> list[jax.export.DisabledSafetyCheck]:
    """What `jax.export.export` must be told of programs that call operators.

        jax.export.export(jax.jit(f), disabled_checks=anyop.jax.export_checks())(*examples)

    JAX promises that an exported program runs in later versions of JAX as well, and so refuses
    what it does not know. A process that calls the program must have imported anyop.jax and loaded
    the same operators; otherwise the call is refused.
    """
    return [jax.export.DisabledSafetyCheck.custom_call(_program.TARGET)]


def _check_version() -> None:
    known = re.match(r"(\d+)\.(\d+)\.(\d+)", jax.__version__)
    version = tuple(map(int, known.groups())) if known else (0, 0, 0)
    if not _VERSIONS[0] <= version < _VERSIONS[1]:
        first, end = (".".join(map(str, v)) for v in _VERSIONS)
        raise _anyop.NotAvailable(
            f"anyop.jax: JAX is {jax.__version__}, but anyop {anyop.__version__} is made for JAX "
            f"from {first} on and before {end}. Try pip install jax=={first}."
        )


def _start() -> None:
    _check_version()
    RULES.extend((_program.install, _batch.install, _gradient.install))
    jax.ffi.register_ffi_target(_program.TARGET, _anyop.jax_handler(), platform="cpu")
    register(_anyop.jax_record(_array_type(), jax.core.Tracer), bound=call)


def _array_type() -> type:
    from jax._src.array import ArrayImpl  # found without starting a backend

    found: type = ArrayImpl
    return found


_start()
