# SPDX-License-Identifier: Apache-2.0
"""A program that fails, as a file that runs by itself and shows what differs."""

from __future__ import annotations

from fuzz.program import Program

_GUARDS = {
    "no_grad": "torch.no_grad()",
    "inference": "torch.inference_mode()",
    "plain": "torch.enable_grad()",
    "train": "torch.enable_grad()",
}

_MAKE = {
    "compile": "torch.compile(module, backend=backend, dynamic={dynamic})",
    "capture": "anyop.torch.capture(module, *example(), dynamic={dims})",
}

_FOOT = '''

BUFFERS, BETWEEN, CALLS = {buffers!r}, {between!r}, {calls}


def example():
    return passed(arguments(0))


def tensors():
    leaves = torch.utils._pytree.tree_leaves(example())
    return [t for t in leaves if isinstance(t, torch.Tensor)]


def passed(given):
    rows = [t for name, t in given.items() if name not in BUFFERS]
    return [rows] if {packed} else rows


def show(backend):
    """Prints what each call returns and leaves behind."""
    given = arguments(0)
    module = Program(given)
    try:
        f = module if backend == "eager" else {make}
    except Exception as error:
        return print(backend, "raises", type(error).__name__, error)
    for call in range(CALLS):
        given = given if call == 0 else arguments(call)
        for name in BUFFERS:
            old = getattr(module, name)
            if call and BETWEEN == "move" and not isinstance(old, torch.nn.Parameter):
                setattr(module, name, given[name])
            elif call and BETWEEN != "keep":
                with torch.no_grad():
                    old.copy_(given[name])
            given[name] = getattr(module, name)
        {train}
        versions = {{n: 0 if t.is_inference() else t._version for n, t in given.items()
                    if isinstance(t, torch.Tensor)}}
        torch.manual_seed(call + 1)
        try:
            with {guard}:
                result = f(*passed(given))
        except Exception as error:
            return print(backend, "call", call, "raises", type(error).__name__, str(error)[:300])
        leaves = torch.utils._pytree.tree_leaves(result)
        made = {{f"result {{i}}": leaf for i, leaf in enumerate(leaves)}}
        for name, t in {{**given, **made}}.items():
            if not isinstance(t, torch.Tensor):
                print(backend, call, name, t)
                continue
            base = t.untyped_storage().data_ptr()
            others = {{n: o for n, o in {{**given, **made}}.items() if isinstance(o, torch.Tensor)}}
            alias = [n for n, o in others.items() if n != name
                     and o.numel() and o.untyped_storage().data_ptr() == base]
            written = name in versions and not t.is_inference() and t._version != versions[name]
            print(backend, call, name, t.dtype, list(t.shape), "strides", t.stride(),
                  "written" if written else "", "shares with" if alias else "", *alias)
            print("   ", t.detach().flatten()[:48].tolist())
        {gradients}


for backend in ("eager", "{name}"):
    show(backend)
'''

_GRADIENTS = """total = sum((t.float() * (torch.arange(t.numel()).reshape(t.shape) % 7 - 2.5)).sum()
                    for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad)
        if isinstance(total, torch.Tensor):
            total.backward()
        print(backend, call, "gradients", {n: t.grad for n, t in given.items()
                                           if isinstance(t, torch.Tensor) and t.is_leaf})"""


def script(program: Program, way: str, why: str) -> str:
    """way: "compile" or "capture"."""
    dims = "None"
    if program.dynamic:
        dims = "[{d: f'n{i}_{d}' for d in range(t.dim())} for i, t in enumerate(tensors())]"
    is_train = program.grad == "train"
    foot = _FOOT.format(
        buffers=program.buffers,
        packed=program.is_packed,
        between=program.between,
        calls=len(program.sizes),
        make=_MAKE[way].format(dynamic=program.dynamic or None, dims=dims),
        guard=_GUARDS[program.grad],
        name="anyop",
        train="[t.requires_grad_() for n, t in given.items() if n not in BUFFERS "
        "and isinstance(t, torch.Tensor) and t.is_floating_point() and t._base is None]"
        if is_train
        else "",
        gradients=_GRADIENTS if is_train else "",
    )
    head = "".join(f"# {line}\n" for line in (f"seed {program.seed}, {way}: {why}").splitlines())
    return head + program.source() + foot
