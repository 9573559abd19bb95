# SPDX-License-Identifier: Apache-2.0
"""Builds anyop with the default compiler, CMake and Python of other systems, each in a folder, as a
user of that system does: kernels of this machine, warnings no errors. Then an example and a package
of operators are tried there.

    python3 tools/systems.py [trixie ...]     by default all but the one that this machine has

Needs root and debootstrap, which puts a Debian into build/systems/NAME.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import prepare
from prepare import ROOT, StepFailed, main_guard, run

SYSTEMS = {"bookworm": "Debian 12", "trixie": "Debian 13"}
PACKAGES = [
    "ccache", "cmake", "g++", "ninja-build", "nlohmann-json3-dev", "python3-click", "python3-dev",
    "python3-numpy", "python3-pip", "python3-pytest", "python3-rich", "python3-venv",
]  # fmt: skip
BUILD = """
set -e
cd /anyop
test -x /env/bin/python || python3 -m venv --system-site-packages /env
. /env/bin/activate
python -c 'import scikit_build_core' 2> /dev/null || {scikit}
pip install -v --no-build-isolation --no-deps --config-settings=cmake.define.ANYOP_NATIVE=BEST .
"""
TRY = """
set -e
. /env/bin/activate
cd "$(mktemp -d)"
python /anyop/examples/hello.py
anyop doctor > /dev/null
anyop new my_ops
cd my_ops
anyop test
python -m pytest -q -p no:cacheprovider
"""


class CannotTryError(Exception):
    """Why a system cannot be put into a folder here."""


def this_system() -> str:
    """The name of this system's release: "bookworm"."""
    lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    return found.get("VERSION_CODENAME", "").strip('"')


def others() -> list[str]:
    return [system for system in SYSTEMS if system != this_system()]


def folder_of(system: str) -> Path:
    """The system in its folder, made if need be. Raises CannotTryError."""
    folder = ROOT / "build" / "systems" / system
    if os.geteuid() != 0:
        raise CannotTryError("only root may change the root folder")
    try:
        if not (folder / "made").exists():
            prepare.ensure_system_packages([("debootstrap", "debootstrap")])
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            run(f"debootstrap {system}", ["debootstrap", "--variant=minbase", system, folder])
            (folder / "made").touch()
        install = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]
        inside(folder, f"packages of {system}", " ".join(install))
    except StepFailed as failure:
        raise CannotTryError(str(failure).splitlines()[-1]) from None
    return folder


def inside(folder: Path, title: str, script: str) -> str:
    """Runs a script in the folder as if it were the root, with a /proc of its own."""
    command = ["unshare", "--mount", "--pid", "--fork", "--root", folder, "--mount-proc"]
    env = {"LC_ALL": "C", "CCACHE_DIR": "/ccache", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
           "PYTHONPATH": "", "TMPDIR": "/tmp", "HOME": "/root", "XDG_CACHE_HOME": "",
           "ANYOP_CACHE": "", "DEBIAN_FRONTEND": "noninteractive"}  # fmt: skip
    return run(title, [*command, "bash", "-c", script], env=env)


def copy_tree(folder: Path) -> None:
    """The project's files as they are here, with their times; what was built there is kept."""
    listed = ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, capture_output=True, check=True).stdout.split(b"\0")
    there = b"\0".join(name for name in names if name and (ROOT / os.fsdecode(name)).exists())
    tree = folder / "anyop"
    for old in tree.iterdir() if tree.exists() else ():
        if old.name != "build":
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    tree.mkdir(exist_ok=True)
    pack = f"tar -C '{ROOT}' --null -T - -c | tar -C '{tree}' --no-same-owner -x"
    subprocess.run(["bash", "-c", pack], input=there, check=True)


def try_system(system: str) -> None:
    """Raises CannotTryError where it cannot be tried, StepFailed where anyop fails there."""
    folder = folder_of(system)
    copy_tree(folder)
    name = SYSTEMS[system]
    # Debian 12 has no package of it.
    scikit = "pip install 'scikit-build-core>=0.11'"
    if system != "bookworm":
        scikit = "apt-get install -y --no-install-recommends python3-scikit-build-core"
    inside(folder, f"build on {name}", BUILD.format(scikit=scikit))
    inside(folder, f"try on {name}", TRY)


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("systems", nargs="*", metavar="SYSTEM")
    args = parser.parse_args()
    for system in args.systems or others():
        try:
            try_system(system)
        except CannotTryError as error:
            print(f"  nothing is tried on {SYSTEMS[system]}: {error}")
    return 0


if __name__ == "__main__":
    main_guard(main)
