# SPDX-License-Identifier: Apache-2.0
"""Builds the packages of packages/, each by its own command, in the environment that
`anyop ascend home` makes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = Path(__file__).parent / "packages"
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
PIP = ("-m", "pip", "install", "--no-build-isolation", "--no-deps", "--quiet", ".")


def run(command, env=None, folder=None, status=0):
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env, cwd=folder)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def home(folder, *options):
    """The environment of a shell that has sourced the script of a new home. pip installs into
    folder/site.
    """
    said = run([sys.executable, "-m", "anyop", "ascend", "home", *options, folder / "home"])
    assert said == f"source {folder / 'home' / 'set_env.sh'}\n"
    bare = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND", "PYTHONPATH"))}
    bare["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{bare['PATH']}"
    bare |= {"PIP_TARGET": str(folder / "site"), "PIP_NO_INDEX": "1"}
    listed = run(["bash", "-c", f"source {folder / 'home' / 'set_env.sh'} && env -0"], bare)
    env = dict(row.split("=", 1) for row in listed.split("\0") if "=" in row)
    env["PYTHONPATH"] = f"{folder / 'site'}{os.pathsep}{env['PYTHONPATH']}"
    return env


def copied(form, folder):
    home = PACKAGES if (PACKAGES / form / "setup.py").exists() else EXAMPLES
    return Path(shutil.copytree(home / form, folder / form))


def installed(form, folder, env):
    """Installs a package as `pip install .` does, and gives its sources."""
    source = copied(form, folder)
    run([sys.executable, *PIP], env, source)
    return source


def python(code, env, folder=None, status=0):
    """What a program prints; an error's last line."""
    return run([sys.executable, "-c", code], env, folder, status).strip()
