"""Two replicas compute what one computes on the same global batch."""

import subprocess
import sys
import textwrap

# Logical devices must be made before TensorFlow starts, so each case is a process of its own.
SCRIPT = """
import sys
import athe_tf, keras, numpy as np, tensorflow as tf

replicas, framework = int(sys.argv[1]), sys.argv[2]
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
devices = tf.config.list_logical_devices("CPU")[:replicas]
strategy = tf.distribute.MirroredStrategy([d.name for d in devices])

from athe_tf import attacks, training
from tests.small_runs import tiny_batch, tiny_net

x, y = tiny_batch(32)
with strategy.scope():
    net = tiny_net("he")
    for layer in net.layers:
        if isinstance(layer, athe_tf.BatchNorm):
            layer.synchronized = True
    trainer = training.get(framework)(net, attacks.PGD(0.1, steps=3), margin=0.2)
    trainer.compile(training.MomentumSGD(0.1, weight_decay=5e-4))
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16, drop_remainder=True)
history = trainer.fit(data, epochs=2, verbose=0, shuffle=False).history
np.savez(sys.argv[3], loss=history["loss"], accuracy=history["robust_accuracy"],
         **{f"w{i:03d}": np.asarray(w) for i, w in enumerate(net.weights)})
"""


def run(replicas, framework, path):
    code = textwrap.dedent(SCRIPT)
    subprocess.run(
        [sys.executable, "-c", code, str(replicas), framework, str(path)],
        check=True,
        capture_output=True,
        text=True,
    )


def test_a_trades_he_run_on_two_replicas_equals_the_run_on_one(tmp_path):
    import numpy as np

    files = []
    for replicas in (1, 2):
        path = tmp_path / f"{replicas}.npz"
        run(replicas, "trades", path)
        files.append(np.load(path))
    one, two = files
    for name in one.files:
        np.testing.assert_allclose(one[name], two[name], atol=1e-5, err_msg=name)
