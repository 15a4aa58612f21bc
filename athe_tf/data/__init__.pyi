from . import corruptions
from .augmentations import AUGMENTATIONS
from .corruptions.apply import corrupt
from .extra import with_extra
from .images import ImageSet
from .loading import load
from .mixed import MixedSet
from .source import ImageSource
from .splits import Splits
from .streamed import Files, StreamedSet

__all__ = [
    "AUGMENTATIONS",
    "Files",
    "ImageSet",
    "ImageSource",
    "MixedSet",
    "Splits",
    "StreamedSet",
    "corrupt",
    "corruptions",
    "load",
    "with_extra",
]
