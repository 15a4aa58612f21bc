"""Digests of arrays, texts and files: whether something is still the same."""

import functools
import hashlib
import pathlib

import numpy as np


def array_digest(*arrays) -> str:
    """A short digest of arrays: their values, shapes and dtypes.

    Example:

    >>> array_digest([1, 2]) == array_digest([1, 2]), array_digest([1, 2]) == array_digest([[1, 2]])
    (True, False)
    """
    digest = hashlib.sha256()
    for array in arrays:
        update(digest, array)
    return digest.hexdigest()[:16]


def update(digest, array) -> None:
    """Adds an array of any dtype to a digest of `hashlib`."""
    array = np.asarray(array)
    digest.update(f"{array.dtype} {array.shape}\n".encode())
    # As bytes: memory views do not know bfloat16.
    digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def text_digest(text: str) -> str:
    """A short digest of a text.

    Example:

    >>> text_digest("pgd-1 @ 2") == text_digest("pgd-1 (2)")
    False
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@functools.cache
def source_digest() -> str:
    """A short digest of the source files of athe_tf, which change more often than its version."""
    package = pathlib.Path(__file__).parents[1]
    paths = sorted(package.rglob("*.py"))
    names = "\n".join(path.relative_to(package).as_posix() for path in paths)
    return text_digest(f"{names}\n{file_digest(*paths)}")


def file_digest(*paths) -> str:
    """The SHA-256 digest of the content of one or several files, in this order."""
    digest = hashlib.sha256()
    for path in map(pathlib.Path, paths):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
