import athe_tf.conversion
import athe_tf.models.card

from .keras_file import load_model as load_model
from .opening import OpenedModel as OpenedModel
from .opening import open_model as open_model
from .saved_model import export as export

convert = athe_tf.conversion.convert
describe = athe_tf.models.card.describe
