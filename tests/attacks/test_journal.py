"""State files of attacks: a full disk, missing and damaged files."""

import errno
import os

import numpy as np
import pytest

from athe_tf.attacks import PGD
from athe_tf.attacks.engine.image_file import ImageFile
from athe_tf.attacks.engine.journal import Journal
from athe_tf.utils.errors import InputError
from tests.linear_case import grey_images, linear_model, predictions

IMAGES = grey_images(24)
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


def images_of(state):
    return state.with_name(state.name + ".images.npy")


def assert_same(result, whole):
    for name in ("x_adv", "success", "queries", "gradients", "norm", "rounds"):
        np.testing.assert_array_equal(getattr(result, name), getattr(whole, name), err_msg=name)


def test_a_state_costs_no_queries(interrupted, whole):
    assert_same(run(interrupted), whole)


def test_the_space_of_all_images_is_allocated_at_once(interrupted):
    found = images_of(interrupted).stat()
    assert found.st_size > IMAGES.nbytes and 512 * found.st_blocks >= IMAGES.nbytes
    assert np.load(images_of(interrupted)).shape == IMAGES.shape


@pytest.mark.parametrize("reason", [errno.EOPNOTSUPP, errno.EINVAL])
def test_where_space_cannot_be_reserved_zeros_are_written(reason, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    file = ImageFile(tmp_path / "images.npy", (3, 500, 500, 1))
    images = np.ones(file.shape, np.float32)
    file.write(images, np.array([1]))
    assert 512 * file.path.stat().st_blocks >= images.nbytes
    np.testing.assert_array_equal(file.read(np.array([0, 1])), [0 * images[0], images[1]])


def test_a_full_disk_is_named_and_the_state_can_still_be_used(tmp_path, monkeypatch, whole):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    state = tmp_path / "pgd.npz"
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
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
        np.save(path, np.zeros((3, 4, 5, 2), np.float32))
    else:
        path.write_bytes({"empty": b"", "short": content[:-1], "zeros": _without_images(content)}[kind])


def _without_images(content: bytes) -> bytes:
    return content[: -IMAGES.nbytes] + bytes(IMAGES.nbytes)


@pytest.mark.parametrize("kind", ["missing", "empty", "short", "of other images", "zeros"])
def test_images_that_were_lost_are_found_again(kind, interrupted, whole):
    damage(images_of(interrupted), kind)
    with pytest.warns(UserWarning, match="images.npy' are missing or damaged: this attack starts again"):
        result = run(interrupted)
    assert_same(result, whole)
    assert_same(run(interrupted), whole)  # and this time they are kept


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
    np.savez(state, **{name: array for name, array in arrays.items() if array is not None})


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
        ("checksums", np.zeros(24)),
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
    monkeypatch.setattr("athe_tf.attacks.engine.journal.__version__", "99.0")
    with pytest.raises(InputError, match="belongs to another evaluation. Received: athe_tf='99.0' "):
        Journal(tmp_path / "a.npz", {"seed": 0}).load()
