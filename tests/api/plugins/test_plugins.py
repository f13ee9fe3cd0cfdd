"""Plugins from files and packages: what they bring, what is remembered of them, and what is said of broken ones."""

from __future__ import annotations

import json
from collections.abc import Generator
from hashlib import sha256
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

import girih
from girih import load_plugin
from girih.api.cli.app import main
from girih.api.plugins import load_plugin as loading
from girih.api.plugins.load_plugin import GROUP, load_installed, loaded
from girih.explain.html.views.repeat_view import command_line
from girih.ir.custom_operators import find_operator, operators, register_operator, registered_for_now
from girih.ir.errors import InfeasibleError, UsageError
from tests.support.custom_models import DOMAIN, custom_node, network

SWISH = """import girih
from tvm import relax

@girih.register_operator("my.ops", "Swish", height="graph")
def swish(x, *, beta=1.0):
    return relax.op.multiply(x, relax.op.sigmoid(relax.op.multiply(x, relax.const(beta, "float32"))))
"""
DOUBLE = """import girih
from tvm import te

@girih.register_operator("my.ops", "Double")
def double(x):
    return te.compute(x.shape, lambda *i: x(*i) * 2.0, name="double")
"""


@pytest.fixture(autouse=True)
def forgotten() -> Generator[None]:
    with registered_for_now():
        yield


@pytest.fixture
def model(tmp_path: Path) -> Path:
    place = tmp_path / "net.onnx"
    nodes = [custom_node("Swish", ["x"], ["a"], beta=2.0), helper.make_node("Relu", ["a"], ["y"])]
    onnx.save_model(network(nodes, {"x": [5, 16]}, {"y": [5, 16]}), place)
    return place


def written(folder: Path, text: str, name: str = "my_ops.py") -> Path:
    place = folder / name
    place.write_text(text)
    return place


def command(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def test_a_file_is_loaded_once_and_again_if_it_has_changed(tmp_path: Path) -> None:
    place = written(tmp_path, SWISH)
    load_plugin(place)
    load_plugin(str(place))
    assert [o.key for o in operators()] == ["my.ops::Swish"]
    written(tmp_path, SWISH + "\n")
    with pytest.raises(UsageError, match=f"{place}:4: the operator my.ops::Swish is registered twice"):
        load_plugin(place)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (DOUBLE + "1 / 0\n", r"my_ops.py:7: the plugin raises ZeroDivisionError: division by zero"),
        (DOUBLE + "import sys\nsys.exit(3)\n", r"my_ops.py:8: the plugin raises SystemExit: 3"),
        (DOUBLE + "import no_such_module\n", r"my_ops.py:7: the plugin raises ModuleNotFoundError: No module named"),
        (DOUBLE + "def (:\n", r"my_ops.py:7: the plugin is not Python: "),
        (DOUBLE + "\0", r"my_ops.py.*: the plugin is not Python: "),
        (DOUBLE + DOUBLE, r"my_ops.py:10: the operator my.ops::Double is registered twice, first at .*my_ops.py:4"),
        (DOUBLE.replace('"Double"', '"Double", height="deep"'), r"my_ops.py:4: .* there is no height 'deep'"),
        ("x = 1\n", r"my_ops.py: the plugin registers no operator; it does with girih.register_operator"),
    ],
)
def test_a_broken_file_is_said_to_be_so_and_leaves_nothing(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_plugin(written(tmp_path, text))
    assert operators() == ()


def test_two_files_with_one_name_of_an_operator_are_refused(tmp_path: Path) -> None:
    load_plugin(written(tmp_path, DOUBLE))
    with pytest.raises(UsageError, match=r"other.py:4: .* registered twice, first at .*my_ops.py:4"):
        load_plugin(written(tmp_path, "x = 1\n" * 0 + DOUBLE, "other.py"))
    assert len(operators()) == 1


def test_a_missing_file_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read the plugin .*absent.py: No such file"):
        load_plugin(tmp_path / "absent.py")
    with pytest.raises(UsageError, match="plugin"):
        load_plugin(7)  # type: ignore[arg-type]


def test_packages_bring_operators(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written(tmp_path, DOUBLE, "girih_double.py")
    written(tmp_path, SWISH.replace("\n@girih", "\ndef bring():\n  @girih").replace("\ndef swish", "\n  def swish").replace("    return", "      return"), "girih_swish.py")  # fmt: skip
    written(tmp_path, DOUBLE + "1 / 0\n", "girih_broken.py")
    monkeypatch.syspath_prepend(tmp_path)
    entries = [EntryPoint("d", "girih_double", GROUP), EntryPoint("s", "girih_swish:bring", GROUP)]
    monkeypatch.setattr(loading, "entry_points", lambda group: entries)
    load_installed.cache_clear()
    load_installed()
    load_installed()
    assert [o.key for o in operators()] == ["my.ops::Double", "my.ops::Swish"]
    entries.append(EntryPoint("b", "girih_broken", GROUP))
    load_installed.cache_clear()
    with (
        registered_for_now(),
        pytest.raises(UsageError, match="the package girih_broken cannot register its operators"),
    ):
        load_installed()
    load_installed.cache_clear()


def test_the_command_line_from_compile_to_check(tmp_path: Path, model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plugin, out = written(tmp_path, SWISH), tmp_path / "net.girih"
    compile_words = ("compile", model, "-o", out, "--target", "tiny", "--strategy", "layerwise", "--no-cache")
    assert command(*compile_words) == 3
    assert "operator my.ops.Swish is of an unknown domain; register it, and give the file as --plugin" in capfd.readouterr().err  # fmt: skip
    assert command(*compile_words, "--plugin", plugin) == 0
    assert operators() == ()
    assert girih.load(out).versions["plugin my_ops.py"] == sha256(SWISH.encode()).hexdigest()
    provenance = girih.load(out).explain().provenance
    assert provenance.options["plugin my_ops.py"] and "plugin my_ops.py" not in provenance.versions
    assert command_line(provenance.options).endswith(" --plugin my_ops.py")
    assert command("run", out, "--exact") == 0
    capfd.readouterr()
    assert command("run", out, "--check", "--plugin", plugin, "--json") == 0
    assert json.loads(capfd.readouterr().out)["npu_fraction"]["elements"] == 1.0
    assert command("run", out, "--check") == 2
    assert "compiled with the plugin my_ops.py: load it too, as with --plugin my_ops.py" in capfd.readouterr().err
    written(tmp_path, SWISH + "# changed\n")
    assert command("run", out, "--check", "--plugin", plugin) == 2
    assert "the plugin my_ops.py was changed since the network was compiled" in capfd.readouterr().err


def test_the_list_of_operators_has_those_of_plugins(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plugin = written(tmp_path, SWISH)
    assert command("ops", "--plugin", plugin) == 0
    assert "my.ops::Swish" in (text := capfd.readouterr().out) and f"{plugin}:4" in text
    assert command("ops", "--plugin", plugin, "--json") == 0
    row = json.loads(capfd.readouterr().out)["custom"]["my.ops::Swish"]
    assert row == {"height": "graph", "template": False, "file": str(plugin), "line": 4}


def test_the_cache_knows_the_content_of_a_plugin(tmp_path: Path, model: Path) -> None:
    def compiled() -> dict[str, bool]:
        with loaded([tmp_path / "my_ops.py"]):
            made = girih.compile(model, target="tiny", strategy="layerwise", cache=tmp_path / "cache")
        return made.cached

    written(tmp_path, SWISH)
    assert compiled() == {"plan": False, "lower": False}
    assert compiled() == {"plan": True, "lower": True}
    written(tmp_path, SWISH + "# changed\n")
    assert compiled() == {"plan": False, "lower": False}


def test_what_does_not_fit_names_the_users_line() -> None:
    @register_operator(DOMAIN, "RowMax")
    def row_max(x: Any) -> Any:
        from tvm import te

        k = te.reduce_axis((0, x.shape[1]), "k")
        top = te.compute((x.shape[0],), lambda i: te.max(x[i, k], axis=k), name="top")
        return te.compute(x.shape, lambda i, j: x[i, j] - top[i], name="row_max")

    model = network([custom_node("RowMax", ["x"], ["y"])], {"x": [4, 1 << 15]}, {"y": None})
    line = find_operator(DOMAIN, "RowMax")
    assert line is not None
    with pytest.raises(InfeasibleError, match=rf"it holds the custom operator my.ops::RowMax \({line.place}\)"):
        girih.compile(model, target="tiny", solver_timeout=2, cache=False)
