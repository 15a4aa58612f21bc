"""Weights of PyTorch in Keras twins: the logits are PyTorch's, and what does not fit is named."""

import json
import pathlib

import numpy as np
import pytest

from athe_tf.conversion import from_torch
from athe_tf.utils.errors import InputError
from tests.conversion import torch_twins

LOGITS = json.loads(pathlib.Path(__file__).with_name("torch_logits.json").read_text())
TWINS = torch_twins.__name__


@pytest.mark.parametrize(
    "wrapped", [lambda state: state, lambda state: {"model_state_dict": state, "epoch": 3}]
)
@pytest.mark.parametrize("name", ["sequential", "residual"])
def test_a_twin_has_the_logits_of_pytorch(name, wrapped):
    checkpoint = wrapped(torch_twins.state(name))
    net = from_torch(checkpoint, f"{TWINS}:{name}", image_size=8)
    np.testing.assert_allclose(net(torch_twins.IMAGES), LOGITS[name], atol=1e-5)


def test_a_state_dict_in_a_list_is_found_and_several_are_listed():
    state = torch_twins.state("sequential")
    net = from_torch([{"state_dict": [state]}], f"{TWINS}:sequential", image_size=8)
    np.testing.assert_allclose(net(torch_twins.IMAGES), LOGITS["sequential"], atol=1e-5)
    with pytest.raises(InputError, match="several sets of weights: '0', '1'. Choose one"):
        from_torch([state, state], f"{TWINS}:sequential", image_size=8)


def test_what_does_not_fit_is_named_and_nothing_is_guessed():
    state = torch_twins.state("residual")
    with pytest.raises(InputError, match=r"'fc' with .*\(4, 9\)"):
        from_torch({**state, "fc.weight": np.ones((4, 9))}, f"{TWINS}:residual", image_size=8)
    with pytest.raises(InputError, match="no layer for the modules more of the checkpoint"):
        from_torch({**state, "more.weight": np.ones((4, 9))}, f"{TWINS}:residual", image_size=8)
    # As in a .safetensors file: two normalizations have the same shapes, and no order.
    with pytest.raises(InputError, match="bn2, bn3 .* have the same shapes.*sorted by name"):
        from_torch(dict(sorted(state.items())), f"{TWINS}:residual", image_size=8)
