"""What can be said about the name of a data set before TensorFlow starts."""

import difflib
import pathlib
import re

from athe_tf.data import folder, npz
from athe_tf.utils.errors import InputError

# Sets of TensorFlow Datasets that people ask for. `load` knows the others too: this list only serves to
# answer a slip of the pen at once.
WELL_KNOWN = (
    "beans",
    "caltech101",
    "cars196",
    "cats_vs_dogs",
    "cifar10",
    "cifar100",
    "cifar10_1",
    "cifar10_corrupted",
    "emnist",
    "eurosat",
    "fashion_mnist",
    "food101",
    "imagenet2012",
    "imagenet2012_corrupted",
    "imagenet_a",
    "imagenet_r",
    "imagenet_resized",
    "imagenet_v2",
    "imagenette",
    "kmnist",
    "mnist",
    "mnist_corrupted",
    "oxford_flowers102",
    "oxford_iiit_pet",
    "stanford_dogs",
    "stl10",
    "svhn_cropped",
    "tf_flowers",
)

LOCAL = ("digits", "npz:PATH", "folder:PATH")

# name, name/config, name:version, name/config:version
_TFDS_NAME = re.compile(r"[a-z][a-z0-9_]*(/[^/:\s]+)?(:(\d+|\*)(\.(\d+|\*)){0,2})?")


def check_name(name, *, data_dir=None) -> None:
    """Raises `InputError` if no data set can have this name, without starting TensorFlow.

    The file of `npz:PATH` has to exist and to have the keys, the folder of `folder:PATH` its parts and
    classes. Whether TensorFlow Datasets knows a name is only certain in `load`; here, a name is refused
    when it is malformed or one slip away from a well-known one.

    Example:

        athe_tf.data.check_name("cifra10")
        # InputError: Unknown data set 'cifra10'. Did you mean 'cifar10'? Available: ...

    Args:
        name: The name, as for `load`.
        data_dir: A set with a folder in here is accepted, whatever its name.
    """
    if not isinstance(name, str):
        raise InputError(f"The name of a data set is a string. Received: name={name!r}.")
    if name == "digits":
        return
    if name.startswith("npz:"):
        npz.check_file(name.removeprefix("npz:"))
        return
    if name.startswith("folder:"):
        folder.check_folder(name.removeprefix("folder:"))
        return
    if not _TFDS_NAME.fullmatch(name):
        raise unknown_data_set(name)
    base = base_name(name)
    if base in WELL_KNOWN or (data_dir is not None and (pathlib.Path(data_dir) / base).is_dir()):
        return
    meant = [known for known in ("digits", *WELL_KNOWN) if _one_slip_apart(base, known)]
    if meant:
        raise unknown_data_set(name, meant)


def base_name(name: str) -> str:
    """`"cifar10"` of `"cifar10/config:3.0.2"`."""
    return re.split("[/:]", name)[0]


def unknown_data_set(name: str, available=("digits", *WELL_KNOWN)) -> InputError:
    """The error for a name that stands for no data set, with the nearest one of `available`."""
    # TFDS names are lower snake case: 'CIFAR-10' is cifar10.
    plain = re.sub(r"[^a-z0-9_]", "", base_name(name).lower())
    nearest = difflib.get_close_matches(plain, available, n=1, cutoff=0.5)
    hint = f" Did you mean '{nearest[0]}'?" if nearest else ""
    return InputError(
        f"Unknown data set '{name}'.{hint} Available: {', '.join((*LOCAL, *WELL_KNOWN))}, "
        "and every image classification set of TensorFlow Datasets."
    )


def _one_slip_apart(a: str, b: str) -> bool:
    """Whether one letter changed, added, left out or swapped with its neighbour makes `b` of `a`."""
    if len(a) > len(b):
        a, b = b, a
    start = next((i for i in range(len(a)) if a[i] != b[i]), len(a))
    if len(a) < len(b):
        return a[start:] == b[start + 1 :]
    swapped = a[start : start + 2] == b[start : start + 2][::-1]
    return a[start + 1 :] == b[start + 1 :] or (swapped and a[start + 2 :] == b[start + 2 :])
