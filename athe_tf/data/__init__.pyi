from .augmentations import AUGMENTATIONS
from .corruptions import corrupt
from .extra import with_extra
from .images import ImageSet
from .loading import load
from .mixed import MixedSet
from .splits import Splits
from .streamed import StreamedSet

__all__ = [
    "AUGMENTATIONS",
    "ImageSet",
    "MixedSet",
    "Splits",
    "StreamedSet",
    "corrupt",
    "load",
    "with_extra",
]
