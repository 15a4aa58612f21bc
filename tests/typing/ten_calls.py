"""What users write, for the type checker alone: `tests/test_typing.py` reads what it reveals.

Every call has a comment with the type that mypy should see.
"""

from typing import reveal_type

import athe_tf

net = athe_tf.models.build("small_cnn", num_classes=10, head="he", input_shape=(8, 8, 1))
splits = athe_tf.data.load("digits")
images, labels = splits.test.arrays(max_examples=100)
batches = splits.train.stream(128, seed=0, augmentation="pad_crop")  # a tf.data.Dataset

reveal_type(athe_tf.CosineDense(10, scale=15.0))  # CosineDense
reveal_type(athe_tf.MarginCrossentropy(margin=0.2))  # MarginCrossentropy
reveal_type(athe_tf.data.load("digits"))  # Splits
reveal_type(splits.test)  # ImageSource | Any
reveal_type(athe_tf.attacks.get("pgd-20", epsilon=8 / 255))  # Attack
reveal_type(athe_tf.attacks.PGD(8 / 255, steps=10))  # PGD
reveal_type(athe_tf.training.get("trades"))  # type[AdversarialModel]
reveal_type(athe_tf.attacks.PGD(8 / 255).run(net, images, labels))  # AttackResult
reveal_type(athe_tf.training.TRADES(net, athe_tf.attacks.PGD(8 / 255), beta=6.0))  # TRADES
reveal_type(athe_tf.victim(net))  # Victim
reveal_type(athe_tf.evaluate(net, (images, labels), attacks=["pgd-20"], epsilon=8 / 255))  # Result
reveal_type(athe_tf.export(net, "export"))  # dict[str, Any]
reveal_type(athe_tf.distribution.DistributionSettings("mirrored"))  # DistributionSettings
reveal_type(athe_tf.distribution.initialize(athe_tf.distribution.DistributionSettings()))  # Distribution
