"""An environment of its own for each peer, made on demand, so that one that does not install breaks nothing else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / ".venv-peers"
THREADS = "2"


def python_for(solver):
    """The interpreter of the solver's environment, and None; or None and why there is none."""
    if not solver.requires:
        return sys.executable, None
    home = FOLDER / solver.package
    python, log = home / "bin" / "python", home / "install.log"
    failed, ready = home / "failed", home / "ready"
    if not ready.exists() and not failed.exists():
        print(f"installing {solver.package} ...", flush=True)
        base = interpreter(solver.python)
        if base is None:
            return None, f"there is no Python {solver.python}, the last one it has wheels for"
        subprocess.run([base, "-m", "venv", home], check=True)
        command = [python, "-m", "pip", "install", "--disable-pip-version-check", "numpy", "scipy", *solver.requires]
        with log.open("w") as out:
            done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, timeout=1800)
        (ready if done.returncode == 0 else failed).write_text("" if done.returncode == 0 else reason(log))
    if failed.exists():
        return None, failed.read_text()
    return str(python), None


def interpreter(wanted):
    """An interpreter of the wanted version, this one if None, or None where there is none."""
    if wanted is None:
        return sys.executable
    places = sorted(Path.home().glob(f".pyenv/versions/{wanted}.*/bin/python"))
    for python in filter(None, [shutil.which(f"python{wanted}"), *map(str, places)]):
        if subprocess.run([python, "-c", "pass"], capture_output=True).returncode == 0:
            return python
    return None


def reason(log):
    """The line of pip's output that says most."""
    lines = [line.strip() for line in log.read_text().splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["pip said nothing"])[-1][:200]


def environment():
    """Variables that give everyone the same number of threads."""
    names = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA")
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    return {**os.environ, **{f"{name}_NUM_THREADS": THREADS for name in names}, "PYTHONPATH": path}
