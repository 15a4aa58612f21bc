"""`from_torch` and `to_torch`: files, entries, prefixes, and the way back."""

import importlib.util
import json
import os
import pathlib

import numpy as np
import pytest

from athe_tf import models
from athe_tf.conversion.torch_checkpoint import (
    find_state_dict,
    read_checkpoint,
    read_safetensors,
    write_safetensors,
)
from athe_tf.conversion.torch_import import guess_architecture, import_checkpoint
from athe_tf.conversion.torch_weights import used_tensors
from athe_tf.utils.errors import InputError
from tests.models import torch_networks
from tests.models.torch_networks import CASES, FILE, MEAN, STD, STORED, images, seeded_state

SHAPES = {key: stored["tensors"] for key, stored in json.loads(FILE.read_text()).items()}
LENET = seeded_state(SHAPES["PAS LeNet"])


def imported(key, state):
    case = CASES[key]
    outside = {"mean": MEAN, "std": STD} if key == "DeepMind" else {}
    return import_checkpoint(state, case.name, image_size=case.shape[0], **outside)


# The others have the rules of FastAT.
@pytest.mark.parametrize("key", [key for key in STORED if key not in ("Rice et al.", "N-FGSM")])
def test_every_tensor_that_the_model_uses_comes_back_bit_for_bit(key):
    state = seeded_state(SHAPES[key])
    result = imported(key, state)
    assert result.head == CASES[key].head
    again = models.to_torch(result.net, layout=result.layout.name)
    used = used_tensors(state)
    assert set(again) == {name for name in SHAPES[key] if not name.startswith("sub_block1.")}
    biases = ("feature_extractor",) if key == "PAS VGG" else ()  # ours are in the running mean
    for name, value in used.items():
        if not (name.startswith(biases) and name.endswith(("bias", "running_mean")) and biases):
            np.testing.assert_array_equal(again[name], value, err_msg=name)
    other = imported(key, again)
    for one, another in zip(result.net.get_weights(), other.net.get_weights(), strict=True):
        np.testing.assert_array_equal(one, another)


def test_the_architecture_is_told_by_the_tensors():
    for key, shapes in SHAPES.items():
        expected = CASES[key].name
        assert expected in guess_architecture(seeded_state(shapes)), key
    assert guess_architecture({"encoder.weight": np.ones(3)}) == ()


def test_the_order_of_the_tensors_does_not_matter():
    for key in ("AT_HE", "DeepMind", "PAS VGG", "PAS LeNet"):
        state = seeded_state(SHAPES[key])
        ordered = {name: state[name] for name in sorted(state)}  # as safetensors writes them
        assert imported(key, ordered).net.input_shape[1:] == CASES[key].shape


def test_another_architecture_is_refused_with_the_nearest():
    state = seeded_state(SHAPES["TRADES"])
    with pytest.raises(InputError, match="does not fit 'wrn-16-2'.*block2_bn1.*fit 'wrn-10-2'"):
        models.from_torch(state, "wrn-16-2")
    with pytest.raises(InputError, match=r"'block1.layer.0.conv1'.*\(3, 3, 16, 32\).*fit 'wrn-10-2'"):
        models.from_torch(state, "wrn-10-1")
    with pytest.raises(InputError, match="does not fit 'dm_wrn-10-2'.*fit 'wrn-10-2'"):
        models.from_torch(state, "dm_wrn-10-2")


def test_cosines_have_the_scale_that_is_asked_for():
    state = seeded_state(SHAPES["AT_HE"])
    plain, scaled = (models.from_torch(state, "wrn-10-2", scale=scale) for scale in (1.0, 15.0))
    x = images((32, 32, 3))
    np.testing.assert_allclose(15 * np.asarray(plain(x)), scaled(x), atol=1e-4)
    assert np.abs(plain(x)).max() <= 1


# -- entries of training checkpoints ------------------------------------------------------------------------


def test_the_weights_of_a_training_checkpoint_are_found_beside_the_state_of_the_optimizer():
    optimizer = {"state": {"conv1.weight": np.ones(3)}, "param_groups": []}
    state, entry = find_state_dict({"epoch": 3, "optimizer": optimizer, "state_dict": LENET})
    assert entry == "state_dict" and set(state) == set(LENET)
    with pytest.raises(InputError, match="no weights.*'epoch', 'optimizer'. Save the state dict"):
        find_state_dict({"epoch": 3, "optimizer": optimizer})


@pytest.mark.parametrize(
    "checkpoint",
    [
        {"model": LENET, "ema": {name: 2 * value for name, value in LENET.items()}},
        {f"model.{n}": v for n, v in LENET.items()} | {f"ema.{n}": 2 * v for n, v in LENET.items()},
    ],
)
def test_one_of_several_copies_must_be_chosen(checkpoint):
    with pytest.raises(InputError, match="several sets of weights: 'model', 'ema'. Choose one with `entry`"):
        models.from_torch(checkpoint, "lenet-4")
    net = models.from_torch(checkpoint, "lenet-4", entry="ema")
    np.testing.assert_array_equal(models.to_torch(net)["fc2.bias"], 2 * LENET["fc2.bias"])
    with pytest.raises(InputError, match="no weights in 'swa'. It has them in 'model', 'ema'"):
        find_state_dict(checkpoint, "swa")


def test_an_averaged_model_is_a_model():
    averaged = {"n_averaged": np.array(5)} | {f"module.{name}": value for name, value in LENET.items()}
    assert imported("PAS LeNet", averaged).entry == ""


# -- files --------------------------------------------------------------------------------------------------


def test_safetensors_files_need_no_torch(tmp_path):
    write_safetensors(tmp_path / "net.safetensors", LENET)
    net = models.from_torch(tmp_path / "net.safetensors", "lenet-4")
    for name, value in models.to_torch(net).items():
        np.testing.assert_array_equal(value, LENET[name])


def test_half_precision_is_read_exactly(tmp_path):
    header = b'{"a.weight":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}'
    content = len(header).to_bytes(8, "little") + header + bytes([0x80, 0x3F, 0x20, 0xC0])
    (tmp_path / "half.safetensors").write_bytes(content)
    np.testing.assert_array_equal(read_safetensors(tmp_path / "half.safetensors")["a.weight"], [1.0, -2.5])
    state, _ = find_state_dict({"a.weight": np.float16([0.1])})
    assert state["a.weight"].dtype == "float32" and state["a.weight"][0] == np.float16(0.1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x01", "header is cut off"),
        ((2**40).to_bytes(8, "little") + b"{}", "header is cut off"),
        ((2).to_bytes(8, "little") + b"[]", "not a JSON object"),
        (
            (61).to_bytes(8, "little") + b'{"a.weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
            "bytes 0 to 8.*do not fit",
        ),
    ],
)
def test_a_broken_safetensors_file_is_refused(content, message, tmp_path):
    (tmp_path / "net.safetensors").write_bytes(content)
    with pytest.raises(InputError, match=f"{message}.*again"):
        read_checkpoint(tmp_path / "net.safetensors")


@pytest.mark.parametrize("name", ["model-00001-of-00003.safetensors", "model.safetensors.index.json"])
def test_a_part_of_a_checkpoint_is_refused(name, tmp_path):
    (tmp_path / name).write_bytes(b"{}")
    with pytest.raises(InputError, match="parts.*Join them first"):
        read_checkpoint(tmp_path / name)


class Poison:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_poisoned_pickle_is_refused_and_nothing_is_executed(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"fc.weight": torch.ones(2), "x": Poison(tmp_path / "executed")}, tmp_path / "p.pt")
    with pytest.raises(InputError, match="refused, and nothing in it was executed.*posix.mkdir.*state_dict"):
        read_checkpoint(tmp_path / "p.pt")
    assert not (tmp_path / "executed").exists()


def test_files_of_torch_are_read_in_any_precision(tmp_path):
    torch = pytest.importorskip("torch")
    tensors = {name: torch.from_numpy(value) for name, value in LENET.items()}
    torch.save({"state_dict": tensors, "optimizer": {"state": {}}}, tmp_path / "whole.pt")
    state, _ = find_state_dict(read_checkpoint(tmp_path / "whole.pt"))
    for name, value in LENET.items():
        np.testing.assert_array_equal(state[name], value)
    torch.save({name: value.bfloat16() for name, value in tensors.items()}, tmp_path / "half.pt")
    state, _ = find_state_dict(read_checkpoint(tmp_path / "half.pt"))
    np.testing.assert_allclose(state["fc2.weight"], LENET["fc2.weight"], rtol=2**-8)
    torch.save(torch.nn.Linear(2, 2), tmp_path / "module.pt")
    with pytest.raises(InputError, match="torch.nn.modules.linear.Linear.*save the state dict alone"):
        read_checkpoint(tmp_path / "module.pt")
    content = (tmp_path / "whole.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="cannot be read.*download it again"):
        read_checkpoint(pathlib.Path(tmp_path / "cut.pt"))


@pytest.mark.parametrize("key", ["TRADES", "AT_HE", "DeepMind", "N-FGSM"])
def test_the_reference_loads_what_is_exported(key):
    pytest.importorskip("torch")
    if importlib.util.find_spec("robustbench") is None:
        pytest.skip("robustbench is not installed")
    reference, state = torch_networks.reference(CASES[key])
    exported = models.to_torch(imported(key, state).net)
    for name, value in reference.state_dict().items():
        if not name.startswith("sub_block1."):
            np.testing.assert_array_equal(exported.pop(name), value.numpy(), err_msg=name)
    assert not exported
