"""Checks that a wheel has every file of the package, and nothing else: ``check_wheel.py FILE.whl``."""

import sys
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parent.parent


def package_files() -> set[str]:
    """Every file in a folder of the package, sources and data, and those of the root that belong to it."""
    folders = [path.parent for path in ROOT.glob("*/__init__.py")]
    inside = {path for folder in folders for path in folder.rglob("*") if path.is_file()}
    paths = {path for path in inside if "__pycache__" not in path.parts} | {ROOT / "__init__.py", ROOT / "py.typed"}
    return {f"girih/{path.relative_to(ROOT).as_posix()}" for path in paths}


def main() -> None:
    (wheel,) = sys.argv[1:]
    names = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    missing, surplus = sorted(package_files() - names), sorted(names - package_files())
    if missing or surplus:
        sys.exit(f"error: {wheel} lacks {missing} and has {surplus}: see packages and package-data in pyproject.toml")
    print(f"{wheel}: all {len(names)} files of the package, and no other")


if __name__ == "__main__":
    main()
