"""What commands that look at a ``.girih`` file have in common: its argument, where their text goes, and its nouns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..compile import Compiled

FILE = click.argument("compiled", metavar="FILE.girih", type=click.Path(path_type=Path))
OUTPUT = click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file instead.")


def load_nouns(path: Path) -> Compiled:
    """Nouns only: neither constants nor the network are needed to look at them."""
    from ..compile import Compiled
    from ..container import read

    return read(path, Compiled, data=False)
