"""Lists of small ONNX models by the name of what is special in them."""

from __future__ import annotations

from collections.abc import Callable

import onnx

Case = Callable[[], onnx.ModelProto]


class Cases(dict[str, Case]):
    """Builders of models by name, in the order in which they were added."""

    def add(self, build: Case) -> Case:
        """A decorator: the case is called as its builder."""
        self[build.__name__.replace("_", " ")] = build
        return build
