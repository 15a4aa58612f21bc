import athe_tf.saving.zoo

card = athe_tf.saving.zoo.card
load = athe_tf.saving.zoo.load
names = athe_tf.saving.zoo.names
table = athe_tf.saving.zoo.table

__all__ = [
    "card",
    "load",
    "names",
    "table",
]
