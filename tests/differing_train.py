"""`bin/train` in a folder of its own, with a source digest of its own: `... FOLDER NUMBER FLAGS`."""

import os
import sys

from athe_tf.programs import conditions, train
from tests.small_runs import small_cnn_of_one_layer

if __name__ == "__main__":
    os.chdir(sys.argv.pop(1))
    digest = f"other{sys.argv.pop(1)}"
    conditions.source_digest = lambda: digest
    with small_cnn_of_one_layer():
        train.main()
