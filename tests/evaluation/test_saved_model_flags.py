"""An exported model and the one it came from are one model to an evaluation."""

import numpy as np
import pytest

import athe_tf
from athe_tf import attacks
from athe_tf.saving.opening import victim
from athe_tf.utils.errors import InputError
from tests.small_runs import tiny_batch, tiny_net

X, _ = tiny_batch(48)
EPSILON = 0.06


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    net = tiny_net("he", seed=2)
    net.save(folder / "net.keras")
    athe_tf.export(net, folder / "export", margin=0.2)
    labels = np.asarray(net(X)).argmax(1).astype("int32")
    return folder / "net.keras", folder / "export", labels


def test_both_give_identical_flags_attack_by_attack(models):
    keras_file, exported, labels = models
    wanted = [
        "fgsm",
        "cw-linf-5",
        "deepfool-10",
        attacks.get("adaptive-pgd-5", epsilon=EPSILON),
        attacks.get("feature-5", epsilon=EPSILON, n_targets=4),
        "square-20",
    ]
    settings = {"attacks": wanted, "epsilon": EPSILON, "checks": False}
    one, other = (athe_tf.evaluate(path, (X, labels), **settings) for path in (keras_file, exported))
    assert one["feature-5"].robust is not None and other["feature-5"].robust is not None
    assert 0 < one.worst_case_accuracy < 1  # there is something to disagree about
    logits = np.sort(victim(str(exported)).logits(X).numpy(), axis=1)
    clear = logits[:, -1] - logits[:, -2] > 1e-4
    assert clear.sum() > 40
    for a, b in zip(one.attacks, other.attacks, strict=True):
        np.testing.assert_array_equal(a.robust[clear], b.robust[clear], err_msg=a.name)
    assert one.angles == other.angles and "adversarial" not in one.angles


def test_a_damaged_card_is_refused(models, tmp_path):
    import shutil

    shutil.copytree(models[1], tmp_path / "export")
    (tmp_path / "export" / "athe_tf.json").write_text("{")
    with pytest.raises(InputError, match="The card .* cannot be read"):
        athe_tf.evaluate(tmp_path / "export", (X, models[2]), attacks=["fgsm"])
