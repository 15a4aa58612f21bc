import athe_tf.saving.names

card = athe_tf.saving.names.card
load = athe_tf.saving.names.load
names = athe_tf.saving.names.names
table = athe_tf.saving.names.table

__all__ = ["card", "load", "names", "table"]
