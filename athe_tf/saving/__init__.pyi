import athe_tf.conversion
import athe_tf.models.card

from .keras_file import load_model
from .opening import OpenedModel, open_model
from .saved_model import export

convert = athe_tf.conversion.convert
describe = athe_tf.models.card.describe

__all__ = ["OpenedModel", "convert", "describe", "export", "load_model", "open_model"]
