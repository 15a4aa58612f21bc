"""Only what this library made is replaced or removed."""

import json

import numpy as np
import pytest

from athe_tf.jobs.journal import Journal
from athe_tf.jobs.ownership import check_ours, check_state_folder, is_ours, remove_files, remove_state, signed
from athe_tf.utils.errors import InputError
from athe_tf.utils.files import TEMPORARY, replacing, write_text


def test_a_page_is_ours_until_somebody_changes_it(tmp_path):
    page = tmp_path / "model_card.md"
    page.write_text(signed("# A card\n"))
    assert is_ours(page)
    page.write_text(page.read_text().replace("A card", "My card"))
    assert not is_ours(page)
    with pytest.raises(InputError, match="model_card.md' exists, and athe_tf did not write it"):
        check_ours(page)


@pytest.mark.parametrize("content", ["{}", "[]", "not json", '{"versions": 3}', "[" * 100_000])
def test_json_of_others_is_not_ours(tmp_path, content):
    path = tmp_path / "evaluation.json"
    path.write_text(content)
    assert not is_ours(path)


def test_our_json_and_examples_are_known(tmp_path):
    (tmp_path / "evaluation.json").write_text(json.dumps({"versions": {"athe_tf": "1"}}))
    (tmp_path / "model_info.json").write_text(json.dumps({"athe_tf": {}}))
    np.savez(tmp_path / "examples.npz", clean=1, adversarial=1, attack=1, index=1)
    check_ours(*tmp_path.iterdir())
    np.savez(tmp_path / "examples.npz", mine=1)
    assert not is_ours(tmp_path / "examples.npz")


def test_of_a_state_folder_only_our_files_are_removed(tmp_path):
    state = tmp_path / "state"
    Journal(state / "evaluation.npz", {"seed": 0}).save({})
    journal = Journal(state / "pgd.npz", {"seed": 0})
    journal.part(0).save({"images": np.ones((2, 2, 2, 1), np.float32)})
    journal.save({})
    np.save(state / "pgd.npz.images.npy", np.ones((2, 2, 2, 1), np.float32))  # of an older version
    np.save(state / "my.npz.images.npy", np.ones(3))
    np.savez(state / "mine.npz", results=np.ones(3))
    (state / "thesis.txt").write_text("precious")
    (state / f"{TEMPORARY}0123.npz").touch()
    remove_state(state)
    assert sorted(path.name for path in state.iterdir()) == ["mine.npz", "my.npz.images.npy", "thesis.txt"]


def test_a_folder_of_the_same_name_is_neither_used_nor_removed(tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    check_state_folder(state)
    (state / f"{TEMPORARY}0123.npz").touch()  # of a process that was killed
    check_state_folder(state)
    (state / "thesis.txt").write_text("precious")
    with pytest.raises(InputError, match="state' contains other files than the state of an evaluation"):
        check_state_folder(state)
    remove_state(state)
    assert (state / "thesis.txt").read_text() == "precious"


def test_files_are_removed_by_name_and_a_folder_only_if_it_is_empty(tmp_path):
    folder = tmp_path / "backup"
    remove_files(folder, "state.npz")  # there is none
    for name in ("state.npz", f"{TEMPORARY}0123.npz", "thesis.tex", "old/state.npz"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    remove_files(folder, "state.npz", "other.npz")
    assert sorted(path.name for path in folder.iterdir()) == ["old", "thesis.tex"]
    assert (folder / "old" / "state.npz").exists()
    (folder / "old" / "state.npz").unlink()
    (folder / "old").rmdir()
    remove_files(folder, "thesis.tex")
    assert not folder.exists()


def test_a_file_that_has_the_text_already_is_left_alone(tmp_path):
    path = tmp_path / "config.json"
    write_text(path, "one")
    before = path.stat()
    write_text(path, "one")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    write_text(path, "two")
    assert path.read_text() == "two" and path.stat().st_mode == before.st_mode


def test_what_fails_halfway_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(OSError), replacing(path) as temporary:
        temporary.write_text("half")
        assert temporary.name.startswith(TEMPORARY)
        raise OSError("disk full")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
