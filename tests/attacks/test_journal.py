"""State files of attacks: a full disk, missing and damaged files."""

import errno
import os
import zlib

import numpy as np
import pytest

from athe_tf.attacks import PGD
from athe_tf.jobs.journal import Journal
from athe_tf.utils.errors import InputError
from tests.linear_case import gray_images, linear_model, predictions

IMAGES = gray_images(24)
MODEL = linear_model()
LABELS = predictions(MODEL, IMAGES)
ATTACK = PGD(epsilon=0.03, steps=3, restarts=2)


class Stopped(Exception):
    """An interruption."""


def run(state, batches=None, images=IMAGES):
    """Runs the attack, or only some batches of it."""
    seen = []

    def progress(*_):
        seen.append(1)
        if len(seen) == batches:
            raise Stopped

    labels = LABELS[: len(images)]
    return ATTACK.run(MODEL, images, labels, batch_size=8, state=state, progress=progress)


@pytest.fixture(scope="module")
def whole():
    result = run(None)
    assert 0 < result.success.sum() < len(IMAGES)
    return result


@pytest.fixture
def interrupted(tmp_path):
    """The state of an attack after two batches, which found adversarial images."""
    state = tmp_path / "pgd.npz"
    with pytest.raises(Stopped):
        run(state, batches=2)
    return state


def first_part(state):
    """The file with the adversarial images of the first batch that found some."""
    return state.with_name(f"{state.name}.part0")


def as_older_version(state):
    """Writes the state as versions did that kept all images in one file, with a checksum of each."""
    with np.load(state) as stored:
        arrays = dict(stored)
    images, checksums = np.zeros_like(IMAGES), np.zeros(len(IMAGES), np.uint32)
    for number in range(int(arrays.pop("parts"))):
        path = state.with_name(f"{state.name}.part{number}")
        with np.load(path) as part:
            images[part["rows"]] = part["images"]
            checksums[part["rows"]] = [zlib.crc32(image.data) for image in part["images"]]
        path.unlink()
    np.save(state.with_name(f"{state.name}.images.npy"), images)
    np.savez(state, **arrays, checksums=checksums)


def assert_same(result, whole):
    for name in ("x_adv", "success", "queries", "gradients", "norm", "rounds"):
        np.testing.assert_array_equal(getattr(result, name), getattr(whole, name), err_msg=name)


def test_a_state_costs_no_queries(interrupted, whole):
    assert_same(run(interrupted), whole)


def test_what_is_written_grows_with_what_is_attacked(tmp_path, whole, monkeypatch):
    """Every batch is interrupted; each writes its own rows, and all rows only when as many were written."""
    rows, original = [], Journal.save
    monkeypatch.setattr(
        Journal, "save", lambda self, arrays: (rows.append(len(arrays["success"])), original(self, arrays))
    )
    state = tmp_path / "pgd.npz"
    for _ in range(100):
        try:
            result = run(state, batches=1)
            break
        except Stopped:
            pass
    assert_same(result, whole)
    batches, attacked = len(rows), int(whole.rounds.sum())
    assert batches > 4 and sum(rows) <= 2 * len(IMAGES) + 2 * attacked < batches * len(IMAGES)


def test_a_full_disk_is_named_and_the_state_can_still_be_used(tmp_path, monkeypatch, whole):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    state = tmp_path / "pgd.npz"
    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        with pytest.raises(InputError, match="Cannot keep the state in .*No space left on device. Make room"):
            run(state)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Stopped):
        run(state, batches=2)
    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        with pytest.raises(InputError, match="No space left on device"):
            run(state)
    assert_same(run(state), whole)


def damage(path, kind):
    content = path.read_bytes()
    if kind == "missing":
        path.unlink()
    elif kind == "of other images":
        rewrite(path, images=np.zeros((3, 4, 5, 2), np.float32))
    elif kind == "of other rows":
        rewrite(path, rows=np.zeros(1, np.int64), images=IMAGES[:1])
    elif kind == "of other types":
        rewrite(path, images=np.full(len(IMAGES), "x"))
    elif kind == "without rows":
        rewrite(path, rows=None)
    else:
        middle = len(content) // 2
        path.write_bytes(
            {
                "empty": b"",
                "short": content[:-1],
                "a changed byte": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
            }[kind]
        )


@pytest.mark.parametrize(
    "kind",
    [
        *("missing", "empty", "short", "a changed byte"),
        *("of other images", "of other rows", "of other types", "without rows"),
    ],
)
def test_images_that_were_lost_are_found_again(kind, interrupted, whole):
    damage(first_part(interrupted), kind)
    with pytest.warns(UserWarning, match="pgd.npz' are missing or damaged: this attack starts again"):
        result = run(interrupted)
    assert_same(result, whole)
    assert_same(run(interrupted), whole)  # and this time they are kept


def test_the_state_of_an_older_version_resumes(interrupted, whole):
    as_older_version(interrupted)
    with pytest.raises(Stopped):
        run(interrupted, batches=1)
    assert "parts" in np.load(interrupted).files  # as this version writes it
    assert_same(run(interrupted), whole)


@pytest.mark.parametrize("kind", ["missing", "empty", "short", "other values", "of other images"])
def test_images_of_an_older_version_that_were_lost_are_found_again(kind, interrupted, whole):
    as_older_version(interrupted)
    path = interrupted.with_name(f"{interrupted.name}.images.npy")
    if kind == "missing":
        path.unlink()
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "of other images":
        np.save(path, np.zeros((3, 4, 5, 2), np.float32))
    else:
        images = np.load(path)
        np.save(path, images[:-1] if kind == "short" else np.nextafter(images, 2))
    with pytest.warns(UserWarning, match="pgd.npz' are missing or damaged: this attack starts again"):
        result = run(interrupted)
    assert_same(result, whole)


def test_images_of_a_state_that_was_removed_do_no_harm(tmp_path, whole):
    state = tmp_path / "pgd.npz"
    with pytest.raises(Stopped):
        run(state, batches=2, images=IMAGES[:16])
    state.unlink()
    with pytest.raises(Stopped):
        run(state, batches=4)
    assert_same(run(state), whole)


def rewrite(state, **changes):
    with np.load(state) as stored:
        arrays = {**stored, **changes}
    with open(state, "wb") as file:
        np.savez(file, **{name: array for name, array in arrays.items() if array is not None})


@pytest.mark.parametrize(
    "name, value",
    [
        ("success", None),
        ("success", np.ones(3, bool)),
        ("success", np.ones(24)),
        ("norm", np.full(24, -1.0, np.float32)),
        ("norm", np.full(24, "x")),
        ("queries", np.full(24, -1)),
        ("rounds", np.full(24, 3)),
        ("rounds", np.zeros((24, 1), np.int64)),
        ("parts", np.array(-1)),
        ("parts", np.array(49)),
        ("parts", None),
        ("seconds", np.zeros(2)),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name, value, interrupted):
    rewrite(interrupted, **{name: value})
    with pytest.raises(InputError, match=f"pgd.npz' cannot be read: expected .* array `{name}`.* Remove it"):
        run(interrupted)


def test_a_file_without_an_identity_is_refused(interrupted):
    rewrite(interrupted, identity=np.array("3"))
    with pytest.raises(InputError, match="pgd.npz' cannot be read: it does not say what it belongs to"):
        run(interrupted)


def test_the_state_of_another_version_is_refused(tmp_path, monkeypatch):
    Journal(tmp_path / "a.npz", {"seed": 0}).save({})
    assert Journal(tmp_path / "a.npz", {"seed": 0}).load() == {}
    monkeypatch.setattr("athe_tf.jobs.journal.__version__", "99.0")
    with pytest.raises(InputError, match="belongs to another evaluation. Received: athe_tf='99.0' "):
        Journal(tmp_path / "a.npz", {"seed": 0}).load()
