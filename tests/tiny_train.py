"""`bin/train` whose `small_cnn` has one small layer: `python -m tests.tiny_train FLAGS`."""

from athe_tf.programs import train
from tests.small_runs import small_cnn_of_one_layer

if __name__ == "__main__":
    with small_cnn_of_one_layer():
        train.main()
