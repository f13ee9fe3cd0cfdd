"""The same plan and program, however busy the machine is and however Python hashes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

COMPILE = """
import girih
from girih.models import build
from tests.support.cpsat import unhurried

network = build("tiny-cnn").SerializeToString(deterministic=True)
with unhurried():
    made = girih.compile(network, target="tiny", batch=3, solver_timeout=3, cache=False)
# A search that its limit ended is what load could change: one that was complete has but one answer.
limited = any(run.status == "feasible" and run.deterministic_seconds for run in made.log.runs)
print(made.log.status, made.plan_sha256, made.program_sha256, limited)
"""
BURNERS = os.cpu_count() or 1
ROOT = Path(__file__).parents[2]


def compiled(hash_seed: int) -> str:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": path}
    words = [sys.executable, "-c", COMPILE]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=300).stdout


@contextmanager
def busy() -> Generator[None]:
    """Every core has other things to do."""
    # They end with this process, whatever becomes of it.
    burn = "import sys, threading\nthreading.Thread(target=sys.stdin.read).start()\nwhile threading.active_count() > 1: pass"
    burners = [subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE) for _ in range(BURNERS)]
    try:
        yield
    finally:
        for burner in burners:
            burner.communicate()


def test_neither_load_nor_hash_seed_changes_anything() -> None:
    quiet = compiled(1)
    with busy():
        loaded = compiled(2)
    assert quiet.startswith("budget ") and quiet.endswith("True\n")
    assert loaded == quiet
