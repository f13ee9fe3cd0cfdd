"""Which tests are nearest to a source file."""

from __future__ import annotations

from pathlib import Path

LAST = "tests/goldens"


def nearest_tests(root: Path, source: str) -> list[str]:
    """Test files under ``root`` to run for the file ``source`` of it, the nearest first.

    Those of its folder's mirror (``solver/banks/model.py``: ``tests/solver/banks``), or of the first folder above that
    has any; in it those first that import the module, or are called after it. Then all others that import the module,
    those of the folders above the mirror, and the golden files, which compile and run two networks.
    """
    path = Path(source)
    mirror = root / "tests" / path.parent
    while not list(mirror.glob("test_*.py")):
        mirror = mirror.parent
    module = ".".join(("girih", *path.with_suffix("").parts))
    package, _, name = module.rpartition(".")

    def imports(test: Path) -> bool:
        text = test.read_text()
        return f"from {module} import" in text or f"from {package} import {name}\n" in text

    near = sorted(mirror.glob("test_*.py"), key=lambda t: (not imports(t), path.stem not in t.stem, t.name))
    others = [t for t in sorted((root / "tests").rglob("test_*.py")) if t not in near and imports(t)]
    above = [t for f in mirror.parents if root / "tests" in f.parents for t in sorted(f.glob("test_*.py"))]
    goldens = sorted((root / LAST).glob("test_*.py"))
    return list(dict.fromkeys(t.relative_to(root).as_posix() for t in (*near, *others, *above, *goldens)))
