"""`folder:PATH`: image files in folders, and every way in which they can be wrong."""

import os
import struct
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from athe_tf import data
from athe_tf.data import folder, folder_layout, names
from athe_tf.data.encoded import ImageDecoder
from athe_tf.utils.errors import InputError
from athe_tf.utils.graph_checks import readable_errors
from benchmarks.malformed import folders


def numbered(number, size=(8, 8), channels=3):
    """An image that shows its number everywhere."""
    return np.full([*size, channels], number, np.uint8)


def write(path, image):
    path.parent.mkdir(parents=True, exist_ok=True)
    encode = tf.io.encode_png if path.suffix == ".png" else tf.io.encode_jpeg
    path.write_bytes(encode(image).numpy())


@pytest.fixture
def root(tmp_path):
    """Two classes; the number of an image is 100 times its class, plus its place in it."""
    for part, count in (("train", 6), ("test", 2)):
        for label, name in enumerate(("ant", "bee")):
            for place in range(count):
                write(tmp_path / part / name / f"{place}.png", numbered(100 * label + place))
    return tmp_path


def test_folders_are_classes_in_alphabetical_order(root):
    splits = data.load(f"folder:{root}", validation_size=4)
    assert splits.class_names == ("ant", "bee") and splits.num_classes == 2
    assert splits.image_shape == (8, 8, 3)
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (8, 4, 4)
    np.testing.assert_array_equal(splits.test.images[:, 0, 0, 0], [0, 1, 100, 101])
    np.testing.assert_array_equal(splits.test.labels, [0, 0, 1, 1])
    seen = np.concatenate([splits.train.images, splits.validation.images])[:, 3, 3, 1]
    assert sorted(seen.tolist()) == [0, 1, 2, 3, 4, 5, 100, 101, 102, 103, 104, 105]


def test_a_folder_that_is_not_divided_is_divided_if_asked(tmp_path):
    for name, count in (("ant", 10), ("bee", 5)):
        for place in range(count):
            write(tmp_path / name / f"{place}.png", numbered(10 * (name == "bee") + place))
    first, second = (data.load(f"folder:{tmp_path}:test=0.2", validation_size=0) for _ in range(2))
    # A fifth of each class, always the same images, and each image once.
    assert np.bincount(first.test.labels).tolist() == [2, 1] and first.class_names == ("ant", "bee")
    np.testing.assert_array_equal(first.test.images, second.test.images)
    seen = np.concatenate([first.train.images, first.test.images])[:, 0, 0, 0]
    assert sorted(seen.tolist()) == list(range(15))
    with pytest.raises(InputError, match=r"has no test images.*divide them: folder:.*:test=0.2"):
        data.load(f"folder:{tmp_path}")
    (tmp_path / "test").mkdir()
    with pytest.raises(InputError, match="has test images already.*Leave :test=0.2 out"):
        data.load(f"folder:{tmp_path}:test=0.2")


def test_validation_images_of_its_own(root):
    write(root / "validation" / "bee" / "x.png", numbered(7))
    splits = data.load(f"folder:{root}")
    assert (len(splits.train), len(splits.validation)) == (12, 1)
    assert splits.validation.images.max() == 7 and splits.validation.labels.tolist() == [1]


def test_jpeg_files_are_read_and_others_passed_over(root):
    write(root / "test" / "ant" / "2.JPEG", numbered(50))
    write(root / "test" / "ant" / "3.jpg", numbered(60))
    (root / "test" / "ant" / "notes.txt").write_text("not an image")
    (root / "test" / "ant" / ".hidden.png").write_text("not an image")
    images = data.load(f"folder:{root}").test.images
    # JPEG may be off by a level.
    np.testing.assert_allclose(images[:4, 0, 0, 0].astype(int), [0, 1, 50, 60], atol=1)


def test_images_of_several_sizes_need_an_image_size(root):
    write(root / "test" / "ant" / "2.png", numbered(50, size=(10, 12)))
    with pytest.raises(InputError, match=r"differ in size. Expected `image_size`.*\(10, 12\) in 2.png"):
        data.load(f"folder:{root}")
    splits = data.load(f"folder:{root}", image_size=6)
    assert splits.image_shape == (6, 6, 3)
    np.testing.assert_array_equal(splits.test.images[:, 0, 0, 0], [0, 1, 50, 100, 101])


def test_gray_images_have_one_channel_and_three_among_colors(tmp_path):
    for part in ("train", "test"):
        for name in ("ant", "bee"):
            write(tmp_path / part / name / "1.png", numbered(9, channels=1))
            write(tmp_path / part / name / "2.png", numbered(9, channels=2))
    assert data.load(f"folder:{tmp_path}").image_shape == (8, 8, 1)
    write(tmp_path / "train" / "ant" / "3.png", numbered(9, channels=4))
    splits = data.load(f"folder:{tmp_path}")
    assert splits.image_shape == (8, 8, 3)
    assert (splits.test.images == 9).all()


def test_a_set_without_training_images_can_be_tested_on(root, tmp_path):
    for path in sorted((root / "train").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (root / "train").rmdir()
    splits = data.load(f"folder:{root}")
    assert splits.train is None and splits.num_classes == 2 and len(splits.test) == 4
    # An empty folder keeps the number of its class.
    (root / "test" / "asp").mkdir()
    splits = data.load(f"folder:{root}")
    assert splits.num_classes == 3 and splits.test.labels.tolist() == [0, 0, 2, 2]


def test_a_broken_file_is_named(root):
    (root / "test" / "bee" / "0.png").write_bytes((root / "test" / "bee" / "0.png").read_bytes()[:30])
    with pytest.raises(
        InputError, match=r"The file .*test/bee/0.png is not a PNG or JPEG image, or it is truncated"
    ):
        data.load(f"folder:{root}")


def test_folders_of_archive_programs_are_no_classes(root):
    for name in ("__MACOSX", ".ipynb_checkpoints", "@eaDir"):
        (root / "train" / name).mkdir()
    assert data.load(f"folder:{root}").class_names == ("ant", "bee")


def test_a_class_without_images_is_refused(root):
    (root / "train" / "aphid").mkdir()
    with pytest.raises(InputError, match=r"no images in `train`: \['aphid'\]"):
        data.load(f"folder:{root}")


def odd_entries(folder):
    (folder / "folder.png").mkdir()
    yield "folder.png"
    (folder / "link.png").symlink_to("nothing")
    yield "link.png"
    os.mkfifo(folder / "pipe.png")
    yield "pipe.png"


def test_what_is_named_like_an_image_but_is_no_file_is_refused_at_once(root):
    for name in odd_entries(root / "train" / "ant"):
        path = root / "train" / "ant" / name
        with pytest.raises(InputError, match=f"{name} is named like an image, but is not a file"):
            data.load(f"folder:{root}")
        path.rmdir() if path.is_dir() else path.unlink()


def test_a_name_that_is_no_text_is_refused(root):
    (root / "train" / "ant" / os.fsdecode(b"\xff.png")).write_bytes(b"")
    with pytest.raises(InputError, match=r"udcff.png' is not UTF-8. Rename it"):
        data.load(f"folder:{root}")


@pytest.mark.parametrize("kind", ["png", "jpg"])
def test_an_image_that_declares_more_pixels_than_any_photograph_is_not_decoded(root, kind):
    path = root / "train" / "ant" / f"bomb.{kind}"
    write(path, numbered(3))
    content = path.read_bytes()
    if kind == "png":
        content = content[:16] + struct.pack(">II", 40_000, 40_000) + content[24:]
    else:
        start = content.index(b"\xff\xc0")
        content = content[: start + 5] + struct.pack(">HH", 40_000, 40_000) + content[start + 9 :]
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"bomb.{kind} declares 40000 x 40000 pixels"):
        data.load(f"folder:{root}")


def test_more_than_memory_holds_is_refused_if_it_must_be_in_memory(root, monkeypatch):
    monkeypatch.setattr(folder, "IN_MEMORY_BYTES", 1000)
    with pytest.raises(InputError, match=r"do not fit in memory.*`image_size`, or streamed=True"):
        data.load(f"folder:{root}", streamed=False)


def test_folders_that_are_no_data_set_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"No such folder of images. Expected .* Received: folder:.*nowhere"):
        names.check_name(f"folder:{tmp_path}/nowhere")
    (tmp_path / "ant").mkdir()
    with pytest.raises(
        InputError, match=r"has no test images. Expected folders `train` and `test`.*\['ant'\]"
    ):
        names.check_name(f"folder:{tmp_path}")
    (tmp_path / "test" / "ant").mkdir(parents=True)
    with pytest.raises(InputError, match=r"at least 2 classes.*Received: \['ant'\]"):
        names.check_name(f"folder:{tmp_path}")
    (tmp_path / "train" / "bee").mkdir(parents=True)
    (tmp_path / "train" / "cow").mkdir()
    with pytest.raises(InputError, match=r"has classes that .*train does not have. Received: \['ant'\]"):
        names.check_name(f"folder:{tmp_path}")
    (tmp_path / "train" / "ant").mkdir()
    with pytest.raises(InputError, match=r"There are no images in .*train. Expected files that end with"):
        data.load(f"folder:{tmp_path}")


def test_the_folders_are_checked_before_tensorflow_starts(root):
    code = f"""
import sys, athe_tf.data.names
athe_tf.data.names.check_name("folder:{root}")
assert "tensorflow" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", [name for name, _ in folders.malformed()])
def test_every_malformed_folder_is_refused(tmp_path, name):
    folders.write_good(tmp_path)
    assert data.load(f"folder:{tmp_path}").num_classes == 2
    dict(folders.malformed())[name](tmp_path)
    with pytest.raises(InputError):
        data.load(f"folder:{tmp_path}")


@pytest.fixture
def calls(monkeypatch):
    """The files whose headers were read, and the folders that were listed."""
    found = {"read_header": [], "_image_names": []}
    for name, seen in found.items():
        original = getattr(folder_layout, name)

        def counted(path, original=original, seen=seen):
            seen.append(str(path))
            return original(path)

        monkeypatch.setattr(folder_layout, name, counted)
    monkeypatch.setattr(folder, "read_header", folder_layout.read_header)
    return found


def test_a_start_opens_few_files_of_many(root, calls, monkeypatch):
    for number in range(2, 60):
        write(root / "train" / "ant" / f"{number}.png", numbered(number))
    monkeypatch.setattr(folder, "_SAMPLE", 4)
    read = []
    original = folder.FileSet.rows
    monkeypatch.setattr(folder.FileSet, "rows", lambda self, ids: (read.extend(ids), original(self, ids))[1])
    data.load(f"folder:{root}", image_size=8, streamed=True)
    assert len(calls["read_header"]) < 2 * 16 and len(read) == 4
    read.clear()
    test = data.load(f"folder:{root}", image_size=8, streamed=True, only="test")
    assert test.train is None and len(test.test) == 4 and read == [] and np.isnan(test.mean).all()


def test_folders_that_did_not_change_are_listed_once(root, calls, tmp_path_factory, monkeypatch):
    monkeypatch.setattr(folder_layout, "SETTLED", -1.0)
    cache = tmp_path_factory.mktemp("run") / "files.json"
    options = {"image_size": 8, "streamed": True, "cache": cache, "validation_size": 2}
    first = data.load(f"folder:{root}", **options)
    assert len(calls["_image_names"]) == 4 and cache.is_file()
    calls["_image_names"].clear()
    second = data.load(f"folder:{root}", **options)
    assert calls["_image_names"] == []
    assert (first.train.paths, first.mean, first.std) == (second.train.paths, second.mean, second.std)
    assert first.train.fingerprint() == second.train.fingerprint()
    write(root / "train" / "bee" / "new.png", numbered(7))
    third = data.load(f"folder:{root}", **options)
    assert [os.path.basename(name) for name in calls["_image_names"]] == ["bee"]
    assert len(third.train) == len(second.train) + 1 and third.mean != second.mean
    # What another folder, or somebody else, wrote is neither believed nor replaced.
    cache.write_text("[1]")
    assert len(data.load(f"folder:{root}", **options).train) == len(third.train)
    assert cache.read_text() == "[1]"


@pytest.mark.parametrize("kind", ["png", "gif", "bmp", "jpg"])
def test_a_streamed_image_that_declares_too_many_pixels_is_not_decoded(tmp_path, kind):
    encode = tf.io.encode_jpeg if kind == "jpg" else tf.io.encode_png
    content = encode(np.zeros([8, 8, 3], np.uint8)).numpy()
    if kind == "png":
        content = content[:16] + struct.pack(">II", 40_000, 40_000) + content[24:]
    elif kind == "gif":
        content = b"GIF89a" + struct.pack("<HH", 40_000, 40_000) + bytes(40)
    elif kind == "bmp":
        content = b"BM" + bytes(16) + struct.pack("<ii", 40_000, -40_000) + bytes(40)
    else:
        start = content.index(b"\xff\xc0")
        content = content[: start + 5] + struct.pack(">HH", 40_000, 40_000) + content[start + 9 :]
    with pytest.raises((tf.errors.OpError, InputError), match="declares too many pixels"):
        ImageDecoder(channels=3)(tf.constant(content))
    (tmp_path / "bomb.png").write_bytes(content)
    images = data.FileSet([str(tmp_path / "bomb.png")], [0], (8, 8, 3), 2)
    with pytest.raises(InputError, match="The file .*bomb.png .*too large"), readable_errors():
        list(images.batches(1))
