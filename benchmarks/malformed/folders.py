"""Folders of images with entries that are no images, or that no reader should wait for."""

import os
import pathlib
import struct
import zlib
from collections.abc import Callable, Iterator


def png(height: int = 6, width: int = 6, value: int = 90) -> bytes:
    """A gray PNG file of one value."""
    rows = (b"\0" + bytes([value]) * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    chunks = [
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def write_good(root: pathlib.Path) -> None:
    """Two classes with six images to train on and two to test on."""
    for part, count in (("train", 6), ("test", 2)):
        for label, name in enumerate(("ant", "bee")):
            (root / part / name).mkdir(parents=True)
            for place in range(count):
                (root / part / name / f"{place}.png").write_bytes(png(value=90 + 50 * label + place))


def malformed() -> Iterator[tuple[str, Callable[[pathlib.Path], object]]]:
    """Ways to spoil the folder that `write_good` wrote: `(name, function of the folder)`."""
    image = pathlib.Path("train", "ant", "odd.png")
    contents = {
        "empty": b"",
        "text": b"not an image",
        "cut": png()[:-20],
        "header-only": png()[:33],
        "huge-size": png()[:16] + struct.pack(">II", 2**31 - 1, 2**31 - 1) + png()[24:],
        "large-size": png()[:16] + struct.pack(">II", 40_000, 40_000) + png()[24:],
        "damaged-data": png()[:45] + b"\xff" * 10 + png()[55:],
        "other-size": png(7, 7),
        "gif": b"GIF89a" + bytes(20),
        "jpeg-cut": b"\xff\xd8\xff\xe0\0\x10JFIF",
    }
    for name, content in contents.items():
        yield f"image-{name}", lambda root, content=content: (root / image).write_bytes(content)
    yield "image-folder", lambda root: (root / image).mkdir()
    yield "image-pipe", lambda root: os.mkfifo(root / image)
    yield "image-link-to-nothing", lambda root: (root / image).symlink_to("nothing")
    yield "image-link-to-itself", lambda root: (root / image).symlink_to(image.name)
    yield "image-device", lambda root: (root / image).symlink_to("/dev/zero")
    yield "image-name-not-text", lambda root: (root / os.fsdecode(b"train/ant/\xff.png")).write_bytes(png())
    yield "class-name-not-text", lambda root: (root / os.fsdecode(b"train/\xff")).mkdir()
    yield "class-empty", lambda root: (root / "train" / "wasp").mkdir()
    yield "class-unknown-in-test", lambda root: (root / "test" / "wasp").mkdir()
    yield "no-test", lambda root: (root / "test").rename(root / "tests")
    yield "one-class", lambda root: (root / "train" / "bee").rename(root / "bee")
