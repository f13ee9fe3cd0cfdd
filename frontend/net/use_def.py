"""Who reads and who writes each tensor of a net, kept up to date while a pass changes and removes steps."""

from __future__ import annotations

from .net import Net, Step


class Readers:
    """Asking costs what the answer is long, however many steps there are.

    A pass tells of each step that it changed, and removes steps here; :meth:`finish` takes them out of the net.
    """

    def __init__(self, net: Net) -> None:
        self._net = net
        self._position = {id(step): i for i, step in enumerate(net.steps)}
        self._known: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._readers: dict[str, dict[int, Step]] = {}
        self._writer: dict[str, Step] = {}
        for step in net.steps:
            self._enter(step)

    def of(self, name: str) -> list[Step]:
        """The steps that read a tensor, in the order of the net."""
        found = self._readers.get(name, {})
        return [found[position] for position in sorted(found)]

    def writer(self, name: str) -> Step | None:
        return self._writer.get(name)

    def changed(self, step: Step) -> None:
        """Another look at what the step reads and writes."""
        self._leave(step)
        self._enter(step)

    def remove(self, step: Step) -> None:
        self._leave(step)
        del self._position[id(step)]

    def finish(self) -> None:
        """The net without the steps that were removed."""
        self._net.steps = [step for step in self._net.steps if id(step) in self._position]

    def _enter(self, step: Step) -> None:
        position = self._position[id(step)]
        self._known[position] = step.inputs, step.outputs
        for name in step.inputs:
            self._readers.setdefault(name, {})[position] = step
        for name in step.outputs:
            self._writer[name] = step

    def _leave(self, step: Step) -> None:
        position = self._position[id(step)]
        inputs, outputs = self._known.pop(position)
        for name in inputs:
            del self._readers[name][position]
        for name in outputs:
            if self._writer.get(name) is step:
                del self._writer[name]
