"""From a model and images to a report."""

import pathlib
from collections.abc import Callable, Mapping, Sequence

from athe_tf.attacks.engine.victim import Victim, victim
from athe_tf.evaluation.attack_plan import Planned, check_epsilons, make_plan
from athe_tf.evaluation.attack_run import Progress, Runner
from athe_tf.evaluation.corruptions import evaluate_corruptions
from athe_tf.evaluation.examples import choose
from athe_tf.evaluation.images import read_images
from athe_tf.evaluation.inputs import Case
from athe_tf.evaluation.model_diagnosis import LOGARITHMS, logarithms, refuse_probabilities
from athe_tf.evaluation.peer_names import check_tools
from athe_tf.evaluation.protocols import Protocol, get_protocol
from athe_tf.evaluation.result import Report
from athe_tf.evaluation.sanity import Probe, sanity_sheet
from athe_tf.evaluation.state_folder import StateFolder
from athe_tf.evaluation.transferred import measure_transfer
from athe_tf.evaluation.under_attack import adversarial_logits, describe_angles, describe_calibration
from athe_tf.evaluation.verify import verify
from athe_tf.programs.open_model import open_victim
from athe_tf.threat import threat_model
from athe_tf.utils.errors import InputError, NotApplicable, check

DEFAULT_EPSILON = 8 / 255


def evaluate(
    model,
    data,
    *,
    attacks: Sequence | None = None,
    protocol: str | None = None,
    epsilon: float | None = None,
    norm: str | None = None,
    epsilons: Sequence[float] = (),
    max_examples: int | None = None,
    batch_size: int = 128,
    seed: int = 0,
    checks: bool = True,
    verify_with: Sequence[str] = (),
    substitutes: Mapping | Sequence = (),
    corruptions: str | None = None,
    data_dir=None,
    margin: float | None = None,
    probabilities: bool = False,
    name: str | None = None,
    dataset: str = "data",
    state=None,
    progress: Callable | None = None,
    finished: Callable | None = None,
) -> Report:
    """Measures how robust a model is.

    Every attack is run on every image that is classified correctly. The answer is a flag for each image and
    attack; the headline is the worst case, the share of images that survive all of them. A sheet of sanity
    checks says whether that number is to be believed.

    Example:

    >>> report = athe_tf.evaluate(net, (images, labels), attacks=["pgd-20", "cw-linf-20"], epsilon=8 / 255)
    >>> print(report)

    Args:
        model: Anything that maps images to logits: a Keras model, a path (`.keras`, SavedModel, workdir), a
            callable, a `Victim`.
        data: `(images, labels)`, a `tf.data.Dataset` of batches, or an image set of `athe_tf.data`.
        attacks: Names, or `Attack` objects, which bring their own epsilon.
        protocol: A named set of attacks instead, see `athe_tf.evaluation.protocols`; `"quick"` where
            neither is given.
        epsilon: Radius of the threat model in pixels of [0, 1]. Defaults to the protocol's, or 8/255.
        norm: `"linf"`, `"l2"` or `"l1"`. Defaults to the protocol's, or `"linf"`.
        epsilons: Further radii: every attack is run at each, for a curve.
        max_examples: Use the first so many images only.
        batch_size: Images that go through the model at once.
        seed: Of the attacks.
        checks: Fill in the sanity sheet, and look at calibration and angles under attack. Costs about 400
            passes of 200 images, and 20 of 500.
        verify_with: Packages that repeat FGSM and PGD-20: `"cleverhans"`, `"foolbox"`, `"art"`.
        substitutes: Other models for the protocol `"transfer"`, a list of paths or a mapping from names.
        corruptions: Measure common corruptions too: `"generated"`, `"folder:PATH"` with genuine files, or a
            TensorFlow Datasets name.
        data_dir: Where TensorFlow Datasets keeps such a set.
        margin: The margin that a hypersphere model was trained with, for adaptive attacks.
        probabilities: The model ends with a softmax that cannot be removed: attack the logarithms.
        name: How the report calls the model.
        dataset: How the report calls the data.
        state: A folder that keeps the state. The same call, made again after an interruption, goes on from
            there and ends with the same report.
        progress: Called now and then with a `Progress`.
        finished: Called with each `AttackReport` as it is there.
    """
    check_tools(verify_with)
    chosen = _protocol(attacks, protocol)
    epsilon, norm = _threat(chosen, epsilon, norm, epsilons)
    target, others = _victim(model), _substitutes(chosen, substitutes)
    plan = make_plan(
        chosen.lines if attacks is None else attacks,
        epsilon,
        norm,
        protocol=chosen,
        epsilons=epsilons,
        margin=target.facts.get("margin") if margin is None else margin,
    )
    images, labels = read_images(data, max_examples, target.num_classes)
    if probabilities:
        target = logarithms(target)
    case = Case.open(target, images, labels, norm, epsilon, seed, batch_size)
    if not probabilities:
        refuse_probabilities(case.clean.logits)
    check(
        case.classes >= chosen.classes,
        f"The protocol '{chosen.name}' needs at least {chosen.classes} classes. Received: "
        f"num_classes={case.classes}. Name attacks instead: --attacks=pgd-20,cw-linf-20.",
    )
    for planned in plan:
        planned.check(target)
    report = Report(
        model=name or target.name,
        dataset=dataset,
        norm=norm,
        epsilon=epsilon,
        seed=seed,
        correct=case.clean.correct,
        attacks=[],
        warnings=[*([LOGARITHMS] if probabilities else []), *case.traits.warnings],
        labels=labels,
        classes=target.num_classes,
        protocol=protocol or ("quick" if attacks is None else None),
        settings={"batch_size": batch_size, "max_examples": max_examples},
    )
    folder = None if state is None else StateFolder(state, case.identity(), case.first_logits())
    _attack(report, Runner(case, folder, progress), plan, finished)
    if chosen.transfer:
        tried = make_plan(chosen.transfer, epsilon, norm, protocol=chosen)
        report.transfer = measure_transfer(case, report.model, others, tried)
    if chosen.corruptions or corruptions is not None:
        source = corruptions or "generated"
        report.corruptions = _corruptions(case, source, data_dir, folder, progress)
    if verify_with:
        report.verify = verify(case, verify_with)
    _describe(report, case, checks and bool(plan), progress)
    return report


def _attack(report: Report, runner: Runner, plan: list[Planned], finished: Callable | None) -> None:
    for number, planned in enumerate(plan, start=1):
        line = runner.run(planned, number, len(plan))
        report.attacks.append(line)
        if finished is not None:
            finished(line)
    report.pictures = choose([line.shown for line in report.attacks if line.shown])


def _describe(report: Report, case: Case, checks: bool, progress: Callable | None) -> None:
    """Fills in what is not an attack of the user's: the sanity sheet, and how the model behaves."""
    attacked = None
    if checks:
        sheet, cost = sanity_sheet(Probe(case, report.attacks, report.verify), _teller(case, progress))
        report.checks = [line.to_dict() for line in sheet]
        report.settings = {**(report.settings or {}), "cost_of_checks": cost}
        try:
            attacked = adversarial_logits(case)
        except NotApplicable:  # no gradients: the sheet says so
            attacked = None
    report.calibration = describe_calibration(case, attacked)
    report.angles = describe_angles(case, attacked)


def _teller(case: Case, progress: Callable | None):
    if progress is None:
        return None
    right, count = int(case.clean.correct.sum()), len(case.clean.correct)
    return lambda done, most: progress(Progress("sanity checks", 0, 0, done, most, right, count))


def _corruptions(case: Case, source: str, data_dir, folder: StateFolder | None, progress) -> dict:
    def tell(cell, done, most, right, seen):
        progress(Progress("corruptions", 0, 0, done, most, right, seen))

    return evaluate_corruptions(
        case.target,
        case.images,
        case.labels,
        source=source,
        batch_size=case.batch_size,
        seed=case.seed,
        data_dir=data_dir,
        journal=None if folder is None else folder.journal("corruptions", {"source": source}),
        progress=None if progress is None else tell,
    )


def _protocol(attacks, protocol: str | None) -> Protocol:
    check(
        attacks is None or protocol is None,
        f"Give either attacks or a protocol. Received: attacks={attacks!r}, protocol={protocol!r}.",
    )
    if attacks is not None:
        check(len(attacks) > 0, "There are no attacks. Name at least one, as 'pgd-20', or a protocol.")
        return Protocol("attacks", "")
    return get_protocol(protocol or "quick")


def _threat(protocol: Protocol, epsilon, norm, epsilons) -> tuple[float, str]:
    epsilon = (protocol.epsilon or DEFAULT_EPSILON) if epsilon is None else float(epsilon)
    norm = norm or protocol.norm or "linf"
    for radius in (epsilon, *epsilons):
        threat_model(norm, radius)  # refuses what is no radius
    check_epsilons(norm, epsilons)
    return epsilon, norm


def _victim(model) -> Victim:
    if isinstance(model, (str, pathlib.Path)):
        return open_victim(model)
    return victim(model)


def _substitutes(protocol: Protocol, models) -> dict[str, Victim]:
    if isinstance(models, str):
        raise InputError(f"Expected a list of models or a mapping from names. Received: {models!r}.")
    check(
        len(models) > 0 or not protocol.transfer,
        f"The protocol '{protocol.name}' needs other models to make images on. Name them: "
        "--substitutes=runs/pgd_at,runs/trades.",
    )
    if isinstance(models, Mapping):
        return {str(name): _victim(model) for name, model in models.items()}
    victims = [_victim(model) for model in models]
    paths = (str, pathlib.Path)
    names = [str(m) if isinstance(m, paths) else v.name for m, v in zip(models, victims, strict=True)]
    return dict(zip(names, victims, strict=True))
