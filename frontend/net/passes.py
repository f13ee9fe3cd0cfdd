"""What a pass over the net is, and how a list of them runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from ...ir.errors import CheckError
from .check_net import check_net
from .net import Net

ImportListener = Callable[[str, int, int], None]
"""Is called with the name of what the import does, how many nodes or steps it has done, and how many there are."""


NetPass = tuple[str, Callable[[Net], None]]
"""The name of a pass, and the function that changes a net in place; it documents what holds before and after it."""


def run_passes(net: Net, passes: Iterable[NetPass], listener: ImportListener) -> None:
    """Run passes one after the other; with ``GIRIH_CHECK=1`` in the environment, check the net in between.

    Raises :class:`~girih.ir.errors.CheckError` naming the pass that leaves something that is no net.
    """
    check = os.environ.get("GIRIH_CHECK") == "1"
    if check:
        checked(net, "the conversion of the nodes")
    for name, run in passes:
        listener(name, 0, len(net.steps))
        run(net)
        listener(name, len(net.steps), len(net.steps))
        if check:
            checked(net, f"the pass {name!r}")


def checked(net: Net, origin: str) -> None:
    """Check the net, and say where it comes from if it is broken."""
    try:
        check_net(net)
    except CheckError as error:
        raise CheckError(f"after {origin}: {error}") from error
