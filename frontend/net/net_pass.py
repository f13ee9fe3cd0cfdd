"""What a pass over the net is, and how a list of them runs."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ...ir.errors import CheckError
from .check_net import check_net
from .net import Net

ImportListener = Callable[[str, int, int], None]
"""Is called with the name of what the import does, how many nodes or steps it has done, and how many there are."""


@dataclass(frozen=True, init=False)
class NetPass:
    """A step of the import: a function that changes a net in place, with the ``options`` that it is called with.

    The docstring of the function is the pass's ``contract``: what holds before and after, with a small picture.
    """

    apply: Callable[..., None]
    options: Mapping[str, object]

    def __init__(self, apply: Callable[..., None], **options: object) -> None:
        object.__setattr__(self, "apply", apply)
        object.__setattr__(self, "options", options)

    @property
    def name(self) -> str:
        """The words of the function's name."""
        return self.apply.__name__.replace("_", " ")

    @property
    def contract(self) -> str:
        return inspect.getdoc(self.apply) or ""

    def __call__(self, net: Net) -> None:
        self.apply(net, **self.options)


def run_passes(net: Net, passes: Iterable[NetPass], listener: ImportListener) -> None:
    """Run passes one after the other; with ``GIRIH_CHECK=1`` in the environment, check the net in between.

    Raises :class:`~girih.ir.errors.CheckError` naming the pass that leaves something that is no net.
    """
    check = os.environ.get("GIRIH_CHECK") == "1"
    if check:
        checked(net, "the conversion of the nodes")
    for step in passes:
        listener(step.name, 0, len(net.steps))
        step(net)
        listener(step.name, len(net.steps), len(net.steps))
        if check:
            checked(net, f"the pass {step.name!r}")


def checked(net: Net, origin: str) -> None:
    """Check the net, and say where it comes from if it is broken."""
    try:
        check_net(net)
    except CheckError as error:
        raise CheckError(f"after {origin}: {error}") from error
