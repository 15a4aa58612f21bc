"""Speed of a training step: plain and hypersphere heads, the share of the machine's peak, PyTorch.

    python -m benchmarks.train_step                     # WRN-10-1, batch 128, PGD-10
    python -m benchmarks.train_step --no_torch --rows=MART,LLR,CURE,AWP,N-FGSM,GradAlign,standard
    python -m benchmarks.train_step --rows=FastAT --without=N-FGSM,GradAlign --instances=2 --no_peak
    python -m benchmarks.train_step --rows=PGD-AT --without=HE,AWP --no_peak --bfloat16     # both, and floors
    python -m benchmarks.train_step --model=wrn-16-4 --batch_size=64 --steps=3 --repeats=5

Every row is measured in one process, interleaved, best of many. "A/A" is plain PGD-AT a second time: what
differs between the two is noise. PyTorch is measured where it is installed, as the better of its default and
its channels-last layout. With `--bfloat16`, every row is there in float32 and in mixed precision (PyTorch:
autocast), without PyTorch's slower layout; "not folded" crafts as for a user's own network, and "floor" is
the same step of a network that has only the convolutions and additions of the other.
"""

import argparse
import time

import athe_tf
from benchmarks.convolution_peak import network_flops, peak_candidates, peak_of
from benchmarks.timing import interleaved, table

import keras  # isort: skip
import numpy as np  # isort: skip
import tensorflow as tf  # isort: skip

from athe_tf import attacks, training
from athe_tf.data.images import with_options
from athe_tf.models.blocks import Blocks
from athe_tf.models.folding import mark_built
from athe_tf.models.names import FAMILIES, parse_name
from athe_tf.programs.build import dtype_policy

ROWS = [
    ("PGD-AT", "pgd_at", "linear"),
    ("PGD-AT again (A/A)", "pgd_at", "linear"),
    ("PGD-AT+HE", "pgd_at", "he"),
    ("PGD-AT+m-HE", "pgd_at", "mhe"),
    ("TRADES", "trades", "linear"),
    ("TRADES again (A/A)", "trades", "linear"),
    ("TRADES+HE", "trades", "he"),
    ("ALP", "alp", "linear"),
    ("ALP+HE", "alp", "he"),
    ("FreeAT", "free_at", "linear"),
    ("FreeAT again (A/A)", "free_at", "linear"),
    ("FreeAT+HE", "free_at", "he"),
    ("FreeAT+m-HE", "free_at", "mhe"),
    ("FastAT", "fast_at", "linear"),
    ("FastAT again (A/A)", "fast_at", "linear"),
    ("FastAT+HE", "fast_at", "he"),
    ("FastAT+m-HE", "fast_at", "mhe"),
    ("standard", "standard", "linear"),
    ("MART", "mart", "linear"),
    ("MART+HE", "mart", "he"),
    ("LLR", "llr", "linear"),
    ("LLR+HE", "llr", "he"),
    ("CURE", "cure", "linear"),
    ("CURE+HE", "cure", "he"),
    ("PGD-AT+AWP", "pgd_at", "linear"),
    ("TRADES+AWP", "trades", "linear"),
    ("FastAT+N-FGSM", "n_fgsm", "linear"),
    ("FastAT+GradAlign", "gradalign", "linear"),
]
# What a row's name says beyond framework and head.
OPTIONS: dict[str, dict] = {
    "AWP": {"weight_perturbation": training.AWP(0.01)},
}


MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)
BFLOAT16, FLOOR, PLAIN = ", bfloat16", "floor", "not folded"


class ConvolutionsOnly(Blocks):
    """Layers of a network without batch normalizations and activations."""

    def norm(self, x, **_):
        return x

    def act(self, x, **_):
        return x


def bare_net(model: str) -> keras.Model:
    """The convolutions and additions of a network, and its head."""
    family, sizes = parse_name(model)
    images, blocks = keras.Input((32, 32, 3), dtype="float32"), ConvolutionsOnly(0)
    features = FAMILIES.get(family)(images, blocks, **sizes)
    return mark_built(keras.Model(images, blocks.dense(features, 10, name="head", dtype="float32")))


def trainer_for(name: str, framework: str, head: str, arguments) -> training.AdversarialModel:
    """A compiled trainer on CIFAR-shaped images."""
    with dtype_policy("mixed_bfloat16" if name.endswith(BFLOAT16) else "float32"):
        return _trainer_for(name.removesuffix(BFLOAT16), framework, head, arguments)


def _trainer_for(name: str, framework: str, head: str, arguments) -> training.AdversarialModel:
    if name.startswith(FLOOR):
        net = bare_net(arguments.model)
    else:
        net = athe_tf.models.build(arguments.model, 10, head=head, mean=MEAN, std=STD)
    if PLAIN in name:
        net = keras.Model(net.inputs, net.outputs)  # as a user's own
    epsilon, options = 8 / 255, dict(OPTIONS.get(name.partition("+")[2], {}))
    attack = attacks.PGD(epsilon, step_size=2 / 255, steps=arguments.steps)
    if framework in ("fast_at", "n_fgsm", "gradalign"):
        attack = attacks.PGD(epsilon, step_size=1.25 * epsilon, steps=1)
    elif framework == "free_at":
        attack = attacks.FGSM(epsilon)
        options |= {"batch_size": arguments.batch_size, "noise_in_box": True}
    margin = {"he": 0.2, "mhe": 0.1}.get(head, 0.0)
    trainer = training.get(framework)(net, attack, margin=margin, **options)
    # Without batch normalization, updates of the floor would end in NaN.
    trainer.compile(training.TorchSGD(1e-9 if name.startswith(FLOOR) else 0.01, weight_decay=5e-4))
    return trainer


def step_of(trainer, x, y):
    """One training step as a function without arguments."""
    trainer.make_train_function()
    function = trainer.train_function
    batches = tf.data.Dataset.from_tensors((tf.constant(x), tf.constant(y))).repeat()
    iterator = iter(with_options(batches))

    def step():
        logs = function(iterator)
        return float(logs["loss"])

    return step


def torch_step(arguments, x, y):
    """PGD-AT on the same network in PyTorch, once for each memory layout; empty where it is not installed."""
    try:
        import torch
    except ImportError:
        return {}
    from benchmarks.torch_twins import torch_wrn

    if arguments.cpu_time:
        torch.set_num_threads(1)
    depth, widen = (int(part) for part in arguments.model.split("-")[1:])
    steps = {}
    kinds = [("default", False), ("channels_last", False)]
    if arguments.bfloat16:
        kinds = [("channels_last", False), ("channels_last", True)]
    for layout, half in kinds:
        net = torch_wrn(depth, widen, 10, mean=MEAN, std=STD)
        memory = torch.channels_last if layout == "channels_last" else torch.contiguous_format
        net = net.to(memory_format=memory)
        optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, weight_decay=5e-4)
        images = torch.tensor(x.transpose(0, 3, 1, 2).copy()).contiguous(memory_format=memory)
        labels = torch.tensor(y, dtype=torch.long)

        def logits(x, net=net, half=half):
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                return net(x).float()

        def step(net=net, logits=logits, optimizer=optimizer, images=images, labels=labels):
            epsilon, size = 8 / 255, 2 / 255
            net.eval()
            delta = torch.empty_like(images).uniform_(-epsilon, epsilon)
            x_adv = (images + delta).clamp(0, 1)
            for _ in range(arguments.steps):
                x_adv.requires_grad_(True)
                loss = torch.nn.functional.cross_entropy(logits(x_adv), labels, reduction="sum")
                (gradient,) = torch.autograd.grad(loss, [x_adv])
                with torch.no_grad():
                    x_adv = x_adv + size * gradient.sign()
                    x_adv = torch.min(torch.max(x_adv, images - epsilon), images + epsilon).clamp(0, 1)
            net.train()
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(logits(x_adv.detach()), labels)
            loss.backward()
            optimizer.step()
            return loss.item()

        steps[f"PyTorch PGD-AT ({layout}{BFLOAT16 if half else ''})"] = step
    return steps


def contains(name: str, parts: str) -> bool:
    """Whether one of the parts, separated by commas, occurs in the name."""
    return any(part in name for part in parts.split(",") if part)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="wrn-10-1")
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--rows", default="PGD-AT,TRADES", help="rows whose names contain one of these")
    parser.add_argument("--without", default="", help="but not those whose names contain one of these")
    parser.add_argument("--instances", type=int, default=1, help="build every row so often; the best counts")
    parser.add_argument("--no_torch", action="store_true", help="leave PyTorch out")
    parser.add_argument(
        "--no_peak", action="store_true", help="leave the convolution peak out, which takes long"
    )
    parser.add_argument("--bfloat16", action="store_true", help="every row in both precisions, and floors")
    parser.add_argument(
        "--cpu_time", action="store_true", help="CPU seconds of one thread, on a machine that others use"
    )
    arguments = parser.parse_args()
    if arguments.cpu_time:
        tf.config.threading.set_intra_op_parallelism_threads(1)
    known = ROWS
    if arguments.bfloat16:
        more = f"PGD-AT, {PLAIN}", f"{FLOOR} of PGD-AT"
        known = [*ROWS, *((name, "pgd_at", "linear") for name in more)]
        known = [(name + suffix, *rest) for suffix in ("", BFLOAT16) for name, *rest in known]
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(arguments.batch_size, 32, 32, 3)).astype("float32")
    y = rng.integers(0, 10, arguments.batch_size).astype("int32")
    trainers = {
        name: trainer_for(name, framework, head, arguments)
        for name, framework, head in known
        if contains(name, arguments.rows) and not contains(name, arguments.without)
    }
    steps = {name: step_of(trainer, x, y) for name, trainer in trainers.items()}
    # Two graphs of the same step may differ by more than a head costs.
    again = {
        (name, number): step_of(trainer_for(name, framework, head, arguments), x, y)
        for name, framework, head in known
        if name in trainers
        for number in range(1, arguments.instances)
    }
    torch_steps = {} if arguments.no_torch else torch_step(arguments, x, y)
    convolutions = {} if arguments.no_peak else peak_candidates()
    peaks = {name: function for name, (function, _) in convolutions.items()}
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    best = interleaved(steps | torch_steps | peaks | again, arguments.repeats, clock=clock)
    for name, number in again:
        best[name] = min(best[name], best[name, number])
    measured = {name: best[name] for name in steps | torch_steps}
    report(arguments, trainers, measured, peak_of(best, convolutions) if convolutions else None)


def report(arguments, trainers, best, peak) -> None:
    """Prints the table and the ratios that matter."""
    rows = [("step", "ms", "images/s", "of its plain form", "passes", "share of peak")]
    for name, seconds in best.items():
        trainer = trainers.get(name)
        base = best.get(name.removeprefix("PyTorch ").split("+")[0].split(" ")[0])
        ratio = f"{seconds / base:.4f}" if base else ""
        share = passes = ""
        if trainer is not None:
            passes = sum(trainer.cost())
            flops = network_flops(trainer.net) * arguments.batch_size * passes
            share = f"{100 * flops / seconds / peak:.1f}%" if peak else ""
        rows.append(
            (name, f"{1e3 * seconds:.1f}", f"{arguments.batch_size / seconds:.1f}", ratio, passes, share)
        )
    print(f"{arguments.model}, batch {arguments.batch_size}, PGD-{arguments.steps}, CPU")
    clock = ", CPU time of one thread" if arguments.cpu_time else ""
    print(f"best of {arguments.repeats} interleaved rounds{clock}")
    print(f"convolution peak {peak / 1e9:.0f} GFLOP/s\n" if peak else "")
    print(table(rows))
    for ours in ("PGD-AT", f"PGD-AT{BFLOAT16}"):
        theirs = [
            seconds
            for name, seconds in best.items()
            if name.startswith("PyTorch") and (BFLOAT16 in name) == (BFLOAT16 in ours)
        ]
        if theirs and ours in best:
            print(f"\nPyTorch's time over ours, {ours}, its better layout: {min(theirs) / best[ours]:.2f}")


if __name__ == "__main__":
    main()
