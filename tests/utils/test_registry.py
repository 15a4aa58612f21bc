"""Names stand for registered objects, or for objects of the user's own modules."""

import sys

import pytest

from athe_tf.utils.errors import InputError
from athe_tf.utils.number_format import parse_number
from athe_tf.utils.registry import Registry, import_object

REGISTRY = Registry("parser", "athe_tf.utils", {"number": "number_format:parse_number"})


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """A module in the current folder, which is not on the path yet."""
    (tmp_path / "athe_tf_test_own.py").write_text("def parse(text):\n    return text.upper()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    yield "athe_tf_test_own"
    sys.modules.pop("athe_tf_test_own", None)


def test_a_registered_name_is_its_object():
    assert REGISTRY.get("number") is parse_number
    assert "number" in REGISTRY and list(REGISTRY) == ["number"]


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(
        InputError, match="Unknown parser 'nunber'. Did you mean 'number'. Available: number."
    ):
        REGISTRY.check("nunber")


def test_a_name_with_a_module_is_imported_from_the_current_folder(own_module):
    assert REGISTRY.get(f"{own_module}:parse")("a") == "A"


def test_a_check_imports_nothing(own_module):
    REGISTRY.check(f"{own_module}:parse")
    REGISTRY.check("no_such_module:parse")
    assert own_module not in sys.modules


@pytest.mark.parametrize("name", ["no_such_module:parse", "math:no_such_name"])
def test_what_cannot_be_imported_is_named(name):
    with pytest.raises(InputError, match=f"Cannot import the parser '{name}': .*PYTHONPATH"):
        REGISTRY.get(name)


@pytest.mark.parametrize("name", ["npz:a.npz", "module:", ":name", "a b:c", "module"])
def test_other_names_are_no_import_paths(name):
    with pytest.raises(InputError, match="Unknown parser"):
        REGISTRY.check(name)
    with pytest.raises(InputError, match="Expected `module:Name` for the parser"):
        import_object(name, "parser")


def test_a_registry_can_be_closed_to_other_modules():
    closed = Registry("parser", "athe_tf.utils", {"number": "number_format:parse_number"}, extensible=False)
    with pytest.raises(InputError, match="Unknown parser 'math:sqrt'"):
        closed.check("math:sqrt")
