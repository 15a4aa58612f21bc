"""From an exception to an exit code and a message.

2 is for what the user can mend, 1 for a failure of the system or of athe_tf.
"""

import errno
import sys

from athe_tf.utils.errors import InputError, described, first_line

#: Errors of the operating system that another path or other rights mend.
MENDABLE = {errno.EACCES, errno.EEXIST, errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}
MENDABLE |= {errno.ENOENT, errno.ENOTDIR, errno.ENOTEMPTY, errno.ENXIO, errno.EPERM, errno.EROFS}
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
FULL_REMEDY = "Free some space, and give the same command again."
MEMORY_REMEDY = "Use a smaller --batch_size, or a machine with more memory."


def explain(error: BaseException) -> tuple[int, str]:
    """The exit code and the message, in one line unless an `InputError` has several."""
    if isinstance(error, InputError):
        return 2, str(error)
    if isinstance(error, MemoryError):
        return 1, f"Out of memory{described(error).removeprefix(type(error).__name__)}. {MEMORY_REMEDY}"
    if isinstance(error, OSError) and error.errno is not None:
        return _of_the_system(error)
    return _of_tensorflow(error) or (1, f"Failed with {described(error)}. --debug shows where.")


def _of_the_system(error: OSError) -> tuple[int, str]:
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    place = f": '{names[0]}'" if names else ""
    reason = first_line(error)
    if error.errno in FULL:
        return 1, f"{reason}{place}. {FULL_REMEDY}"
    if error.errno == errno.ENOMEM:
        return 1, f"{reason}{place}. {MEMORY_REMEDY}"
    if error.errno in MENDABLE and names:
        return 2, f"{reason}{place}. Check the path and its permissions."
    return 1, f"Failed with an error of the operating system: {reason}{place}. --debug shows where."


def _of_tensorflow(error: BaseException) -> tuple[int, str] | None:
    """`None` for errors of others; TensorFlow is not imported for this."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or not isinstance(error, tensorflow.errors.OpError):
        return None
    text = first_line(error)
    errors = tensorflow.errors
    if "No space left" in str(error.message):
        return 1, f"No space left on device: {text}. {FULL_REMEDY}"
    if isinstance(error, errors.ResourceExhaustedError):
        return 1, f"Out of memory: {text}. {MEMORY_REMEDY}"
    if isinstance(error, (errors.NotFoundError, errors.PermissionDeniedError)) and error.op is None:
        return 2, f"{text}. Check the path and its permissions."
    return 1, f"TensorFlow failed with {described(error)}. --debug shows where."
