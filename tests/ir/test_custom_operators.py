"""The registry of custom operators: what is refused, where it says that something is, and that nothing is left behind."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from girih.ir import custom_operators
from girih.ir.checks.check_graph import check_graph
from girih.ir.custom_operators import (
    all_or_nothing,
    blaming,
    find_operator,
    operator_by_key,
    operators,
    register_operator,
    registered_for_now,
)
from girih.ir.equivalence import EquivalenceClasses
from girih.ir.errors import CheckError, UsageError
from girih.ir.graph import Host
from tests.support.graphs import residual


@pytest.fixture(autouse=True)
def forgotten() -> Generator[None]:
    with registered_for_now():
        yield


def code(text: str, file: Path) -> CodeType:
    file.write_text(text)
    return compile(text, str(file), "exec")


DOUBLE = """import girih
@girih.register_operator("my.ops", "Double")
def double(x):
    y = x + x
    return y / 0
"""


def test_a_file_and_a_line_are_remembered(tmp_path: Path) -> None:
    file = tmp_path / "my_ops.py"
    exec(code(DOUBLE, file), {})
    operator = find_operator("my.ops", "Double")
    assert operator is not None
    assert (operator.key, operator.height, operator.place) == ("my.ops::Double", "compute", f"{file}:2")
    assert operator.sha256 == hashlib.sha256(DOUBLE.encode()).hexdigest()
    assert operator_by_key("my.ops::Double") is operator and operators() == (operator,)
    assert find_operator("", "Double") is None


def test_the_standard_domain_has_two_names() -> None:
    register_operator("ai.onnx", "Celu", height="graph")(lambda x: x)
    assert find_operator("", "Celu") is find_operator("ai.onnx", "Celu") is not None


@pytest.mark.parametrize(
    ("arguments", "function", "message"),
    [
        ({"height": "tall"}, len, "there is no height 'tall'; choose one of graph, compute, library"),
        ({}, 7, "what is registered is no function, but of type int"),
        ({"template": 7}, len, "its template is no function, but of type int"),
        ({"template": len, "height": "graph"}, len, "only operators of the height compute have a template, not graph"),
        ({"name": ""}, len, "domain and name are texts, and the name is not empty"),
        ({"domain": 3}, len, "domain and name are texts"),
    ],
)
def test_what_cannot_be_is_refused_at_its_line(arguments: dict[str, Any], function: Any, message: str) -> None:
    with pytest.raises(UsageError, match=r"test_custom_operators.py:\d+: the operator .*" + message):
        register_operator(**{"domain": "d", "name": "n", **arguments})(function)
    assert operators() == ()


def test_twice_is_refused_and_names_both_places(tmp_path: Path) -> None:
    file = tmp_path / "my_ops.py"
    with pytest.raises(UsageError) as raised, all_or_nothing():
        exec(code(DOUBLE + DOUBLE.replace("import girih", ""), file), {})
    expected = f"{file}:7: the operator my.ops::Double is registered twice, first at {file}:2; rename one of them"
    assert str(raised.value) == expected
    assert operators() == ()


def test_an_error_in_a_users_function_has_its_line(tmp_path: Path) -> None:
    file = tmp_path / "my_ops.py"
    exec(code(DOUBLE, file), {})
    operator = operator_by_key("my.ops::Double")
    with (
        pytest.raises(UsageError, match=f"{file}:5: the call of the operator my.ops::Double failed: ZeroDivisionError"),
        blaming(operator, "the call"),
    ):
        operator.function(1)
    with pytest.raises(UsageError, match=f"{file}:2: .*IndexError: outside"), blaming(operator, "the call"):
        raise IndexError("outside")


def test_the_digest_follows_the_content_and_is_empty_without_operators(tmp_path: Path) -> None:
    assert custom_operators.digest() == ""
    digests: set[str] = set()
    for text in (DOUBLE, DOUBLE + "# changed\n"):
        with registered_for_now():
            exec(code(text, tmp_path / "my_ops.py"), {})
            digests.add(custom_operators.digest())
    assert len(digests) == 2 and custom_operators.digest() == ""


def test_an_unknown_key_says_which_plugin_is_missing() -> None:
    with pytest.raises(UsageError, match="the operator a::b is not registered; give the plugin that has it"):
        operator_by_key("a::b")


def test_operators_of_a_template_of_their_own_are_a_class_of_their_own() -> None:
    graph = residual()
    op = graph.ops[0]
    names = tuple(f"block{n}" for n in range(len(op.stages)))
    own = replace(op, template="my.ops::Double", blocks=names)
    custom = replace(graph, ops=(own, *graph.ops[1:]))
    check_graph(custom)
    assert custom.digest != graph.digest
    assert EquivalenceClasses(custom).representatives[0] is own
    with pytest.raises(CheckError, match="names of blocks"):
        check_graph(replace(graph, ops=(replace(own, blocks=names[1:]), *graph.ops[1:])))
    with pytest.raises(CheckError, match="has a template"):
        check_graph(replace(graph, ops=(replace(own, stages=(), buffers=(), host=Host("", "")), *graph.ops[1:])))


def test_what_is_typed_in_without_a_file_is_known_by_its_code() -> None:
    digests: list[str] = []
    for number in (1, 2, 2):
        names: dict[str, object] = {"register_operator": register_operator}
        text = f'@register_operator("my.ops", "Add", height="graph")\ndef add(x):\n    return x + {number}\n'
        with registered_for_now():
            exec(compile(text, "<input>", "exec"), names)
            digests.append(custom_operators.digest())
    assert digests[0] != digests[1] == digests[2]
