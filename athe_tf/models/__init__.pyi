import athe_tf.conversion

from .adapters import ensemble_of as ensemble_of
from .adapters import freeze as freeze
from .adapters import to_logits as to_logits
from .adapters import with_input_range as with_input_range
from .builder import build as build
from .features import embedding_model as embedding_model
from .gradient_sources import straight_through as straight_through
from .hypersphere import suggest_scale as suggest_scale
from .hypersphere import to_hypersphere as to_hypersphere
from .names import ACTIVATIONS as ACTIVATIONS
from .names import HEADS as HEADS
from .names import NAMES as NAMES

from_torch = athe_tf.conversion.from_torch
load_torch_weights = athe_tf.conversion.load_torch_weights
to_torch = athe_tf.conversion.to_torch
