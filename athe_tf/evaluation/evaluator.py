"""From a model and images to a result."""

import contextlib
import dataclasses
import functools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from athe_tf.attacks.engine.attack import Attack
from athe_tf.evaluation import measures
from athe_tf.evaluation.adversarial_examples import choose_examples
from athe_tf.evaluation.attack_run import AttackRunner, PlannedAttack, attack_eight_bits, make_plan
from athe_tf.evaluation.corruptions import evaluate_corruptions, source_identity
from athe_tf.evaluation.images import LazyImages
from athe_tf.evaluation.inputs import EvaluationInputs, open_images
from athe_tf.evaluation.model_diagnosis import (
    LOGARITHMS,
    check_class_count,
    logarithms,
    refuse_probabilities,
)
from athe_tf.evaluation.options import CommonOptions, EvaluationOptions
from athe_tf.evaluation.progress import ProgressDisplay, teller
from athe_tf.evaluation.protocols import Protocol, get_protocol
from athe_tf.evaluation.sanity import SanityProbe, run_checks
from athe_tf.evaluation.state_folder import MergedState, StateFolder, recall_clean
from athe_tf.evaluation.verify import verify
from athe_tf.jobs.shard import WHOLE, Shard
from athe_tf.models.folding import cheaper_gradients
from athe_tf.models.gradient_sources import straight_through
from athe_tf.models.names import HEAD_MARGINS
from athe_tf.models.victim import Victim
from athe_tf.results.attack_outcome import AttackOutcome
from athe_tf.results.norms_and_distances import randomized_accuracies
from athe_tf.results.notices import IN_VERDICT, Notice
from athe_tf.results.result import Result
from athe_tf.saving.opening import open_model
from athe_tf.threat import threat_model
from athe_tf.utils.arithmetic import computed_on
from athe_tf.utils.choices import parse_threat_models
from athe_tf.utils.errors import NotApplicable, check
from athe_tf.utils.number_format import format_number
from athe_tf.utils.options import check_arguments

DEFAULT_EPSILON = 8 / 255
SEVERAL = (
    "The attacks were computed on devices that round differently: {}. An image whose margin is below about "
    "1e-4, or 1e-2 with TF32, may have another flag than on one of them."
)
SHARD = "These are the images of shard {shard} only; the number to quote is that of all shards together."


def evaluate(
    model,
    data,
    labels=None,
    *,
    attacks: Sequence | None = None,
    protocol: str | None = None,
    epsilon: float | None = None,
    norm: str | None = None,
    max_examples: int | None = None,
    batch_size: int = CommonOptions.batch_size,
    seed: int = CommonOptions.seed,
    checks: bool = CommonOptions.checks,
    verbose: int = 0,
    name: str | None = None,
    dataset: str | None = None,
    class_names: Sequence[str] | None = None,
    options: EvaluationOptions | None = None,
) -> Result:
    """Measures how robust a model is.

    Every attack is run on every image that is classified correctly. The result has a flag per image and
    attack; the headline is the worst case, the share of images that survive all attacks. Sanity checks say
    whether that number can be believed.

    Example:

    >>> result = athe_tf.evaluate(net, images, labels, attacks=["pgd-20", "cw-linf-20"], epsilon=8 / 255)
    >>> print(result)

    Args:
        model: Anything that maps images to logits: a Keras model, the path of a `.keras` file or of a
            SavedModel, a callable, a `Victim`.
        data: Images, with their `labels`; or `(images, labels)`, or an image set of `athe_tf.data`; or a
            `tf.data.Dataset`, in batches or not, of `(image, label)` or of dictionaries with `"image"` and
            `"label"`, as TensorFlow Datasets has them. Its images may be uint8, from 0 to 255.
        labels: The labels, if `data` are images: integers `[N]`.
        attacks: Names of attacks, or `Attack` objects, which have their own epsilon.
        protocol: The name of a set of attacks in `athe_tf.evaluation.PROTOCOLS`. Defaults to `"quick"` if
            `attacks` is not given either.
        epsilon: Radius of the threat model in pixels of [0, 1]. Defaults to the protocol's, or 8/255.
        norm: `"linf"`, `"l2"` or `"l1"`. Defaults to the protocol's, or `"linf"`.
        max_examples: Use only the first images, at most this many. Defaults to `None`: all.
        batch_size: Images per forward pass. Defaults to 128.
        seed: Seed of the attacks. Defaults to 0.
        checks: Whether to run the sanity checks, and to measure calibration and angles under attack. They
            take about 400 passes of 200 images and 20 passes of 500. Defaults to `True`.
        verbose: 1 shows the progress on standard error: a bar on a terminal, else lines. Defaults
            to 0: nothing.
        name: The name of the model in the result. Defaults to the model's own.
        dataset: The name of the data in the result. Defaults to `"data"`.
        class_names: The names of the classes, in the order of their numbers. Defaults to numbers.
        options: Less common settings: further radii, resuming, corruptions, cross-checks with other packages.

    Returns:
        A `Result`.
    """
    counts: dict[str, Any] = {"max_examples": max_examples, "batch_size": batch_size, "seed": seed}
    check_arguments(CommonOptions, **counts)
    options = options or EvaluationOptions()
    options = dataclasses.replace(options, name=name or options.name, dataset=dataset or options.dataset)
    display = ProgressDisplay() if verbose else None
    if display is not None:
        options = display.added_to(options)
    data = data if labels is None else (data, labels)
    chosen = _protocol(attacks, protocol)
    (norm, epsilon), *others = threat_models(chosen, epsilon, norm, options)
    for radius in (epsilon, *options.epsilons):
        threat_model(norm, radius)  # raises for an invalid norm or radius
    victim = straight_through(open_model(model).victim, options.straight_through)
    victim = cheaper_gradients(victim, options.gradients)
    substitutes = _open_substitutes(chosen, options, options.name or victim.name)
    wanted = chosen.attacks if attacks is None else attacks
    threat: dict[str, Any] = {"epsilon": epsilon, "norm": norm, "published": chosen.epsilon}
    further: dict[str, Any] = {"epsilons": options.epsilons, "logit_scale": options.logit_scale}
    further["others"] = others
    plan = make_plan(wanted, **threat, **further, margin=_margin_of(victim, options))
    check_class_count(victim, victim.num_classes)
    images, labels = open_images(data, max_examples, victim.num_classes)
    shard = _shard(options, len(images))
    rows = None if shard is None else shard.rows(len(images))
    if not options.shards and isinstance(images, LazyImages):
        images.hold(np.arange(len(images)) if rows is None else rows)
    victim = logarithms(victim) if options.probabilities else victim
    passes = options.random_passes, options.gradient_passes
    recall = functools.partial(recall_clean, options.shards) if options.shards else None
    known = norm, epsilon, seed, batch_size, passes, rows, recall
    inputs = EvaluationInputs.open(victim, images, labels, *known)
    victim = inputs.victim
    _check_inputs(inputs, chosen, plan, options)
    result = Result(
        model=options.name or victim.name,
        dataset=options.dataset,
        norm=norm,
        epsilon=epsilon,
        seed=seed,
        correct=inputs.clean.correct,
        warnings=[*([LOGARITHMS] if options.probabilities else []), *inputs.diagnosis.warnings],
        labels=labels,
        images_fingerprint=f"{len(images)} images, digest {inputs.images_digest}",
        classes=inputs.num_classes,
        class_names=_class_names(class_names, inputs.num_classes),
        threat_models=[
            {"norm": one, "epsilon": format_number(radius)} for one, radius in [(norm, epsilon), *others]
        ],
        protocol=chosen.name if attacks is None else None,
        settings={"batch_size": batch_size, "max_examples": max_examples, **options.chosen()},
    )
    if shard is not None:
        _check_recognized(inputs, shard)
    folder = StateFolder.open(options.state, inputs, shard)
    state = MergedState(options.shards, inputs) if options.shards else folder
    devices = result.settings["computed_on"] = [computed_on()] if state is None else state.computed_on
    if len(devices) > 1:
        result.warnings.append(Notice(SEVERAL.format("; ".join(devices)), id="several-devices"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # who wants a state was told above that the model has no digest
        digest = {} if inputs.model_digest is None else {"digest": inputs.model_digest}
    result.judge = {"name": result.model, **digest}  # type: ignore[assignment, typeddict-item]
    if victim.source is not victim:
        result.gradient_source = {"name": victim.source.name}
    runner = AttackRunner(inputs, state, options.max_passes, shard or WHOLE, options.jit_compile)
    _run_attacks(result, runner, plan, options)
    on_eight_bits = attack_eight_bits(result, runner)
    if on_eight_bits is not None:
        result.attacks.append(on_eight_bits)
        if options.finished is not None:
            options.finished(on_eight_bits)
    if shard is not None:
        warning = Notice(SHARD.format(shard=shard), id="single-shard")
        return result.of_images(shard.rows(len(images)), warning)
    if inputs.clean_wrong is not None:
        result.randomized = randomized_accuracies(result, inputs.clean_wrong, victim.passes)
    not_covered = result.not_covered()
    result.warnings += [] if not_covered is None else [not_covered]
    if chosen.transfer:
        crafted_by = make_plan(chosen.transfer, **threat)
        result.transfer = measures.measure_transfer(inputs, result.model, substitutes, crafted_by)
    if chosen.corruptions or options.corruptions is not None:
        result.corruptions = _measure_corruptions(inputs, options, folder)
    if options.verify_with:
        result.verify = verify(inputs, options.verify_with)  # type: ignore[assignment]
    planned = [one.attack for one in plan if one.attack is not None and one.not_run is None]
    _describe_model(result, inputs, planned if checks else [], options.progress)
    if display is not None:
        display.clear()
    return result


def _class_names(names: Sequence[str] | None, classes: int) -> list[str] | None:
    check(
        names is None or len(names) == classes,
        f"Expected one name per class in `class_names`. Received: {len(names or ())} names for a model with "
        f"{classes} classes.",
    )
    return None if names is None else [str(one) for one in names]


def _protocol(attacks, protocol: str | None) -> Protocol:
    check(
        attacks is None or protocol is None,
        f"Expected either `attacks` or `protocol`. Received: attacks={attacks!r}, protocol={protocol!r}.",
    )
    if attacks is None:
        return get_protocol(protocol or "quick")
    check(len(attacks) > 0, "There are no attacks. Name at least one, such as 'pgd-20', or a protocol.")
    return Protocol("attacks", "")


def threat_models(protocol: Protocol, epsilon, norm, options: EvaluationOptions) -> list[tuple[str, float]]:
    """The norms of an evaluation with their radii; the first is that of its headline."""
    several = parse_threat_models(options.norms, norm, epsilon)
    radius = (protocol.epsilon or DEFAULT_EPSILON) if epsilon is None else float(epsilon)
    return several or [(norm or protocol.norm or "linf", radius)]


def _margin_of(victim: Victim, options: EvaluationOptions) -> float:
    """The margin of training; if it is unknown, the one that the HE paper has for the head."""
    stated = victim.facts.get("margin") if options.margin is None else options.margin
    return HEAD_MARGINS.get(measures.head_of(victim), 0.0) if stated is None else float(stated)


def _open_substitutes(protocol: Protocol, options: EvaluationOptions, name: str) -> dict[str, Victim]:
    """The other models by name; `name` is the name of the model itself."""
    check(
        len(options.substitutes) > 0 or not protocol.transfer,
        f"The protocol '{protocol.name}' needs other models to craft adversarial examples on. "
        "Received: none. Name them: EvaluationOptions(substitutes={'other': model}).",
    )
    check(
        name not in options.substitutes,
        f"A substitute has the name of the model itself. Expected other names than '{name}'. Received: "
        f"{list(options.substitutes)}. Rename the substitute, or set EvaluationOptions(name=...).",
    )
    return {other: open_model(model).victim for other, model in options.substitutes.items()}


def _check_inputs(inputs: EvaluationInputs, protocol: Protocol, plan, options: EvaluationOptions) -> None:
    """Refuses what cannot work, and marks attacks that this model does not allow."""
    if not options.probabilities:
        refuse_probabilities(inputs.diagnosis)
    check(
        inputs.num_classes >= protocol.min_classes,
        f"The protocol '{protocol.name}' needs at least {protocol.min_classes} classes. Received: "
        f"num_classes={inputs.num_classes}. Name attacks instead, such as ['pgd-20', 'cw-linf-20'].",
    )
    for planned in plan:
        planned.check(inputs.victim)


def _shard(options: EvaluationOptions, images: int) -> Shard | None:
    """The share of the images that is attacked, if it is not all of them."""
    if options.shard is None:
        return None
    shard = Shard.parse(str(options.shard))
    shard.check_images(images)
    return shard


def _check_recognized(inputs: EvaluationInputs, shard: Shard) -> None:
    check(
        inputs.model_digest is not None,
        "The shards of this evaluation could not be recognized, because the model contains Python code. "
        f"Received: shard={shard}. Save it as a .keras file without code, or evaluate it in one process.",
    )


def _run_attacks(
    result: Result, runner: AttackRunner, plan: list[PlannedAttack], options: EvaluationOptions
) -> None:
    for number, planned in enumerate(plan, start=1):
        same = next((one for one in result.attacks if one.name == planned.spec.equals), None)
        tell = teller(options.progress, planned.label, number, len(plan))
        outcome = runner.run(planned, tell) if same is None else planned.copied(same)
        result.attacks.append(outcome)
        if options.finished is not None:
            options.finished(outcome)
    result.pictures = choose_examples([outcome.examples for outcome in result.attacks if outcome.examples])
    result.warnings += _warnings_of(result.attacks)


def _warnings_of(attacks: list[AttackOutcome]) -> list[str]:
    """What the attacks found out about the model that makes their number doubtful, each once."""
    found: dict[str, list[tuple[str, str]]] = {}
    for outcome in attacks:
        for remark in outcome.remarks:
            if getattr(remark, "id", None) in IN_VERDICT:
                found.setdefault(remark.id, []).append((outcome.name, remark))  # type: ignore[attr-defined]
        if outcome.nan_logits:
            text = f"{outcome.nan_logits:,} adversarial examples have logits that are NaN or infinite."
            found.setdefault("nan-logits", []).append((outcome.name, text))
    return [
        Notice(f"In {', '.join(name for name, _ in told)}: {told[0][1]}", id=name)
        for name, told in found.items()
    ]


def _measure_corruptions(inputs: EvaluationInputs, options: EvaluationOptions, folder) -> Any:
    source, resize, data_dir = options.corruptions or "generated", options.corruption_resize, options.data_dir
    identity = source_identity(source, data_dir) | ({} if resize is None else {"resize": resize})
    journal = None if folder is None else folder.journal("corruptions", identity)
    tell = teller(options.progress, "corruptions")
    common: dict[str, Any] = {"batch_size": inputs.batch_size, "seed": inputs.seed, "data_dir": data_dir}
    common |= {"source": source, "resize_size": resize, "journal": journal}
    common["progress"] = None if tell is None else lambda _, *numbers: tell(*numbers)
    return evaluate_corruptions(inputs.victim, inputs.images, inputs.labels, **common)


def _describe_model(result: Result, inputs: EvaluationInputs, planned: list[Attack], progress) -> None:
    """Adds the sanity checks, and how the model behaves under attack."""
    attacked, correct = None, inputs.clean.correct
    if planned:
        tell, counts = teller(progress, "sanity checks"), (int(correct.sum()), len(correct))
        probe = SanityProbe(inputs, result.attacks, result.verify, planned)
        found, cost = run_checks(probe, tell and (lambda *done: tell(*done, *counts)))
        result.checks = [dataclasses.asdict(one) for one in found]  # type: ignore[misc]
        result.settings["cost_of_checks"] = cost
        with contextlib.suppress(NotApplicable):  # no gradients: a sanity check says so
            attacked = measures.adversarial_logits(inputs)
    result.calibration = measures.describe_calibration(inputs, attacked)
    result.angles = measures.describe_angles(inputs, attacked)
