"""Recipes beside the code that their authors published, step by step, where that code is at hand.

    python -m benchmarks.recipe_parity DM-Improves-AT SCORE FastAT_Benchmark
    python -m benchmarks.recipe_parity DM-Improves-AT SCORE FastAT_Benchmark --float32

Three checkouts: wzekai99/DM-Improves-AT, P2333/SCORE and fzjcdt/FastAT_Benchmark. Needs PyTorch and pandas
beside TensorFlow. Both sides compute in float64, from the same weights, batches and random numbers; what
their code imports and does not need here is replaced by empty modules. Prints the largest differences:

- rates and momenta of `OneCycle` and of PyTorch's `OneCycleLR`, at every update of the published settings;
- weights after 30 updates of a WRN-10-1, by TRADES and by the trainer of Wang et al. (2023), and averages;
- the losses and weight gradients of SCORE and of LIET on one batch.

With `--float32`, both sides compute in float32, and the weights are compared after the first update alone.
"""

import argparse
import contextlib
import importlib
import pathlib
import sys
import types
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
import torch

import athe_tf
from athe_tf import attacks, training
from athe_tf.training.options import NO_DECAY
from athe_tf.training.schedules import OneCycle, PerEpoch
from athe_tf.utils import rng

EPSILON = 8 / 255
MISSING = (
    "torchvision", "torchvision.transforms", "torchvision.datasets", "torchvision.datasets.vision",
    "torchvision.datasets.utils", "matplotlib", "matplotlib.pyplot", "autoattack",
    "autoattack.autopgd_base", "seaborn", "RandAugment", "torchattacks",
)  # fmt: skip
# Peak, steps and share of the rise: Wang et al., Bartoldson et al., FastAT_Benchmark, and one per update.
CYCLES = ((0.2, 400, 0.025), (0.1, 6820, 0.025), (0.1, 100, 0.3), (0.2, 39200, 0.025))
BATCH, PER_EPOCH, EPOCHS, UPDATES = 16, 10, 80, 30
MOMENTUM = 0.95 / 0.85


@contextlib.contextmanager
def modules_of(folder):
    """Context in which the modules of a checkout can be imported."""
    before = dict(sys.modules)
    sys.modules.update({name: mock.MagicMock() for name in MISSING})
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        # What PyTorch imports late cannot be imported twice, and stays.
        for name in set(sys.modules) - before.keys():
            if name.partition(".")[0] in ("core", "gowal21uncovering", "fast_at", "utils", "models"):
                del sys.modules[name]
        for name in MISSING:
            del sys.modules[name]
        sys.modules.update({name: before[name] for name in MISSING if name in before})


def one_cycle(rate, steps, rise) -> float:
    """The largest difference of rate and momentum over all updates."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=rate, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=rise)
    theirs = []
    for step in range(steps):
        group = optimizer.param_groups[0]
        theirs.append((group["lr"], group["momentum"]))
        optimizer.step()
        if step + 1 < steps:
            scheduler.step()
    schedules = OneCycle(rate, steps, rise), OneCycle(0.85, steps, rise, MOMENTUM, MOMENTUM)
    ours = [tf.vectorized_map(schedule, tf.range(steps)).numpy() for schedule in schedules]
    return float(np.abs(np.stack(ours, 1) - np.array(theirs)).max())


def twin(theirs) -> keras.Model:
    """Our network with the weights of theirs."""
    inner = theirs.module[0]
    statistics = {"mean": inner.mean.flatten().tolist(), "std": inner.std.flatten().tolist()}
    net = athe_tf.models.build("dm_wrn-10-1", 10, activation="silu", bn_momentum=0.99, **statistics)
    athe_tf.models.load_torch_weights(net, state_of(theirs))
    return net


def state_of(theirs) -> dict[str, np.ndarray]:
    """Weights and moving statistics, without the counts of passes that PyTorch keeps beside them."""
    named = {k.removeprefix("module.0."): v for k, v in theirs.state_dict().items() if v.is_floating_point()}
    return {name: value.detach().numpy().copy() for name, value in named.items()}


def difference(net: keras.Model, state: dict[str, np.ndarray]) -> float:
    """The largest difference of a weight or a moving statistic."""
    ours = athe_tf.models.to_torch(net)
    # `to_torch` rounds the constants of the normalization to float32.
    names = state.keys() - {"mean", "std"}
    return float(max(np.abs(ours[name] - state[name]).max() for name in names))


def channels_first(images):
    return torch.tensor(np.ascontiguousarray(np.transpose(images, (0, 3, 1, 2))))


class GivenStart:
    """Stands for `torch.FloatTensor` where their code draws the start of an attack."""

    offset: np.ndarray

    def __init__(self, shape):
        pass

    def uniform_(self, low, high):
        return channels_first(self.offset)


def give_start(trainer, x) -> None:
    """Their next start will be ours."""
    seed = rng.fold(rng.fold(trainer.step_seed()), 0)
    GivenStart.offset = trainer.attack.initial_point(tf.constant(x), tf.range(len(x)), seed).numpy() - x


def wang(folder, updates: int = UPDATES):
    """Yields the update, and the differences of weights and averages."""
    import pandas

    # Removed in pandas 2.
    pandas.DataFrame.append = lambda self, other, ignore_index=True: pandas.concat([self, other])
    arguments = argparse.Namespace(
        model="wrn-10-1-swish", normalize=False, data="cifar10s", seed=0, batch_size=BATCH, lr=0.2, beta=5.0,
        num_adv_epochs=EPOCHS, weight_decay=5e-4, nesterov=True, scheduler="cosinew", pretrained_file=None,
        attack="linf-pgd", attack_eps=EPSILON, attack_iter=10, attack_step=2 / 255, consistency=False,
        CutMix=False, mart=False, LSE=False, clip_grad=None, tau=0.995, ls=0.1, keep_clean=False,
    )  # fmt: skip
    with modules_of(folder):
        module = importlib.import_module("gowal21uncovering.utils.watrain")
        theirs = module.WATrainer({"data": "cifar10s", "num_classes": 10}, arguments)
    # Epochs of ten updates instead of 3,126, and the delay of the average in proportion.
    theirs.update_steps, theirs.warmup_steps = PER_EPOCH, 0.025 * EPOCHS * PER_EPOCH
    ours = training.TRADES(
        twin(theirs.model), attacks.PGD(EPSILON, step_size=2 / 255, steps=10, start="uniform"), beta=5.0,
        bn_mode="batch_no_update", label_smoothing=0.1, bn_copy_first=True, seed=7,
        average=training.EMA(0.995, start=theirs.warmup_steps - 1),
    )  # fmt: skip
    rate, momentum = (0.2, EPOCHS, 0.025), (0.85, EPOCHS, 0.025, MOMENTUM, MOMENTUM)
    rate, momentum = (PerEpoch(OneCycle(*each), PER_EPOCH) for each in (rate, momentum))
    optimizer = training.TorchSGD(rate, momentum=momentum, weight_decay=5e-4, nesterov=True)
    optimizer.exclude_from_weight_decay(var_names=NO_DECAY["all_but_norm"])
    ours.compile(optimizer)
    generator = np.random.default_rng(0)
    batches = iter([])

    def loader():
        # Called when their loop asks, so that both sides are at the same update.
        for x, y in batches:
            give_start(ours, x)
            yield channels_first(x), torch.tensor(y)
            ours.train_on_batch(x, y.astype("int32"))

    for done in range(0, updates, PER_EPOCH):
        count = min(PER_EPOCH, updates - done)
        images = generator.uniform(size=(count, BATCH, 32, 32, 3)).astype(keras.config.floatx())
        batches = zip(images, generator.integers(0, 10, (count, BATCH)), strict=True)
        theirs.train(loader(), epoch=1 + done // PER_EPOCH, adversarial=True)
        states = state_of(theirs.model), state_of(theirs.wa_model)
        yield done + count, difference(ours.net, states[0]), difference(ours.averaged, states[1])


def of_one_batch(trainer, x_adv, x, y, theirs) -> tuple[float, float]:
    """Our loss, and the largest difference of a weight gradient."""

    @tf.function
    def step():
        return trainer.gradients(tf.constant(x), x_adv, tf.constant(y))[1:]

    loss, gradients = step()
    holder = keras.models.clone_model(trainer.net)
    for weight, gradient in zip(holder.trainable_variables, gradients, strict=True):
        weight.assign(gradient)
    named = {n.removeprefix("module.0."): p.grad.numpy() for n, p in theirs.named_parameters()}
    return float(loss), difference(holder, named)


def batch() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    return generator.uniform(size=(8, 32, 32, 3)), generator.integers(0, 10, 8).astype("int32")


def network(folder):
    with modules_of(folder):
        models = importlib.import_module("core.models")
        return models.create_model("wrn-10-1-swish", False, {"data": "cifar10s", "num_classes": 10}, "cpu")


def score(folder) -> tuple[float, float]:
    """The differences of loss and gradients."""
    (x, y), theirs = batch(), network(folder)
    with modules_of(folder):
        published = importlib.import_module("gowal21uncovering.utils.trades")
    attack = attacks.PGD(EPSILON, step_size=2 / 255, steps=10, start="uniform")
    mode = {"bn_mode": "batch_no_update", "seed": 5}
    trainer = training.TRADES(twin(theirs), attack, beta=4.0, divergence="mse", **mode)
    trainer.compile(training.TorchSGD(0.1))
    give_start(trainer, x)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    settings = {"step_size": 2 / 255, "epsilon": EPSILON, "perturb_steps": 10, "beta": 4.0}
    labels = torch.tensor(y.astype("int64"))
    loss, _ = published.trades_loss_LSE(
        theirs, channels_first(x), labels, optimizer, label_smoothing=0.0, **settings
    )
    loss.backward()
    x_adv = tf.function(trainer.craft)(tf.constant(x), tf.constant(y))
    ours, gradients = of_one_batch(trainer, x_adv, x, y, theirs)
    return abs(ours - loss.item()), gradients


class Base:
    """Stands for the base class of FastAT_Benchmark's methods."""

    def __init__(self, model, config=None, **kwargs):
        self.model, self.config, self.device, self.eps = model, config, "cpu", EPSILON
        self.name, self.seed, self.output_dir, self.total_training_time, self.max_gpu_memory = "", 0, "", 0, 0
        self.logger = mock.MagicMock()
        self._record_gpu_memory = lambda: 0.0
        self._validate_model = lambda *_: dict.fromkeys(("val_acc", "fgsm_acc", "pgd_acc"), 0.0)


def liet(networks, folder) -> tuple[float, float]:
    """The differences of loss and gradients."""
    (x, y), theirs = batch(), network(networks)
    with modules_of(folder):
        package = types.ModuleType("fast_at")
        package.__path__ = [str(pathlib.Path(folder, "fast_at"))]
        base = types.SimpleNamespace(ATBase=Base)
        with mock.patch.dict(sys.modules, {"fast_at": package, "fast_at.at_base": base}):
            method = importlib.import_module("fast_at.liet").LIET
    attack = attacks.PGD(EPSILON, step_size=EPSILON, steps=1)
    trainer = training.LIET(twin(theirs), attack, seed=5)
    trainer.compile(training.TorchSGD(0.0))
    seed, once = trainer.step_seed(), tf.zeros([1], tf.int32)

    def drawn(stream, rows, shape=(10,), low=0.0):
        return rng.uniform(seed, tf.range(rows), shape, low, 1.0, stream, tf.float64).numpy()

    share = float(tf.squeeze(rng.uniform(seed, once, [1], 0.1, 0.5, stream=2)))
    side = float(tf.squeeze(rng.rademacher(seed, once, [1], stream=3)))
    masks = channels_first(drawn(4, 8, x.shape[1:]))
    like = iter([drawn(1, 10), masks, drawn(6, 8), drawn(7, 8)])
    single = iter([(share - 0.1) / 0.4, float(side > 0)])
    noise = types.SimpleNamespace(
        uniform_=lambda _, high: high * channels_first(drawn(5, 8, x.shape[1:], -1.0))
    )
    zeros, losses = torch.zeros_like, []
    optimizer = types.SimpleNamespace(zero_grad=theirs.zero_grad, step=lambda: None)
    with contextlib.ExitStack() as stack:
        for name, function in {
            "rand_like": lambda _: torch.as_tensor(next(like)),
            "rand": lambda *_: torch.tensor([next(single)]),
            "zeros_like": lambda tensor: noise if tensor.dim() == 4 else zeros(tensor),
            "save": lambda *_: None,
        }.items():
            stack.enter_context(mock.patch.object(torch, name, function))
        trainer_of_theirs = method(theirs, config={"total_epoch": 1, "weight_average": False})
        backward = torch.Tensor.backward

        def recording(loss, *args, **kwargs):
            losses.append(loss.item())
            return backward(loss, *args, **kwargs)

        stack.enter_context(mock.patch.object(torch.Tensor, "backward", recording))
        data = [(channels_first(x), torch.tensor(y.astype("int64")))]
        trainer_of_theirs.train(optimizer, types.SimpleNamespace(step=lambda: None), data, None)
    trainer.directions.assign(tf.function(trainer.class_directions)())
    start = trainer.craft(tf.constant(x), tf.constant(y))
    ours, gradients = of_one_batch(trainer, start, x, y, theirs)
    return abs(ours - losses[-1]), gradients


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("wang", "score", "fastat"):
        parser.add_argument(name)
    parser.add_argument("--float32", action="store_true")
    folders = parser.parse_args()
    precision = "float32" if folders.float32 else "float64"
    torch.set_default_dtype(getattr(torch, precision))
    torch.Tensor.cuda = lambda self, *_, **__: self
    keras.config.set_dtype_policy(precision)
    keras.config.set_floatx(precision)
    if folders.float32:
        with mock.patch.object(torch, "FloatTensor", GivenStart):
            ((_, weights, averages),) = wang(folders.wang, updates=1)
        print(f"Wang et al., float32, update 1: weights {weights:.1e}, averages {averages:.1e}")
        return
    for rate, steps, rise in CYCLES:
        print(f"one cycle, {steps} updates to {rate}: {one_cycle(rate, steps, rise):.1e}", flush=True)
    with mock.patch.object(torch, "FloatTensor", GivenStart):
        print("SCORE, loss and gradients: {:.1e}, {:.1e}".format(*score(folders.score)), flush=True)
        print(
            "LIET, loss and gradients: {:.1e}, {:.1e}".format(*liet(folders.score, folders.fastat)),
            flush=True,
        )
        for update, weights, averages in wang(folders.wang):
            print(f"Wang et al., update {update}: weights {weights:.1e}, averages {averages:.1e}", flush=True)


if __name__ == "__main__":
    main()
