"""The picture of a machine shows every memory, engine and link, and each way once."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from girih.explain.machine.machine_picture import machine_picture
from girih.ir.load_machine import load_machine, machine_names

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", machine_names())
def test_everything_is_drawn_inside_of_the_picture(name: str) -> None:
    machine = load_machine(name)
    root = ElementTree.fromstring(machine_picture(machine))
    names = [e.text for e in root.iter() if e.get("class") == "name"]
    assert names[1:] == [
        *(m.name for m in sorted(machine.memories, key=lambda m: (m.scope == "core", -m.capacity))),
        *(e.name for e in machine.engines),
        *(link.name for link in machine.links),
    ]
    marks = {kind: sum(e.get("class") == kind for e in root.iter()) - 1 for kind in ("reads", "weights", "writes")}
    read, written = (
        sum(len(link.memories) for link in machine.links if link.direction != other) for other in ("write", "read")
    )
    assert marks == {
        "reads": sum(len(e.reads) for e in machine.engines) + read,
        "weights": sum(len(e.weights) for e in machine.engines),
        "writes": sum(len(e.writes) for e in machine.engines) + written,
    }
    wide, high = (float(root.get(key, "0")) for key in ("width", "height"))
    for element in root.iter():
        assert 0 <= float(element.get("x", "0").rstrip("%")) <= wide
        assert 0 <= float(element.get("y", "0").rstrip("%")) <= high


def test_names_are_escaped() -> None:
    machine = replace(load_machine("tiny"), name="<b>&", description="a < b")
    root = ElementTree.fromstring(machine_picture(machine))
    assert (root.findtext(f"{SVG}title") or "").startswith("<b>&: ")
