"""`bin/evaluate`: measures how robust a classifier is."""

import contextlib
import dataclasses

from athe_tf.evaluation.protocols import PROTOCOLS, protocol_for
from athe_tf.jobs.ownership import STATE
from athe_tf.programs.accelerators import DEVICE, planned_device
from athe_tf.programs.command_line import Flag, Program, print_line, summaries, warn_user
from athe_tf.programs.config import EvaluateConfig
from athe_tf.programs.evaluation_job import EvaluationJob, open_output, repeat_command
from athe_tf.programs.interruption import INTERRUPTION
from athe_tf.programs.sharded import all_shards, own_shard, run_shard, run_worker
from athe_tf.programs.workdir import Workdir, fill_from_run, known_settings, training_run_of
from athe_tf.report.gate import GateOptions
from athe_tf.report.reading import read_config, read_evaluation
from athe_tf.utils.choices import parse_threat_models
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.options import values_of

EXAMPLES = """
bin/evaluate --model=runs/digits --attacks=fgsm,pgd-20,cw-linf-20
bin/evaluate --model=runs/digits --protocol=he2020 --output=runs/digits/he2020
bin/evaluate --model=export --dataset=cifar10 --epsilon=8/255 --epsilons=4/255,16/255 --max_examples=1000
bin/evaluate --model=runs/digits --attacks=swift --shard=3/8 --output=OUT
bin/evaluate --model=runs/digits --output=OUT --require="worst_case>=0.45" --baseline=OLD --max_drop=0.02
bin/evaluate --model=my_models:logits --dataset=npz:images.npz --verify_with=cleverhans,foolbox,art
"""


PLAN = Flag("plan", "Print passes, measured seconds and memory of every attack; then stop.")


def action(config: EvaluateConfig, extra: dict) -> int:
    """Runs the evaluation, or this process's share of it, and returns the exit code."""
    device = planned_device(extra)
    job = make_job(config)
    shard = own_shard(config)
    job.settings, cluster = config.distribution_settings().shared_evaluation(look_for_workers=shard is None)
    INTERRUPTION.remark = "" if config.output is None else "The same command resumes the evaluation."
    if shard is not None:
        return run_shard(job, config, shard)
    if cluster is not None:
        return run_worker(job, config, cluster)
    if extra["plan"]:
        job.open()
        print_line(job.plan(device))
        return 0
    with contextlib.nullcontext() if config.output is None else open_output(config.output) as output:
        job.open()
        return job.show(job.evaluate(None if output is None else output / STATE), output)


def merge_shards(output: str, gate: GateOptions) -> int:
    """Makes one evaluation of the shards in a folder, on this machine, and returns the exit code."""
    shards = all_shards(output)
    output = str(shards[0].output)
    here: dict = {"distribution": "auto", "devices": (), "cpu_replicas": 1, "shard": None, "output": output}
    here |= values_of(GateOptions, gate)
    job = make_job(dataclasses.replace(shards[0].config(), **here))
    with open_output(output) as folder:
        job.open()
        return job.show(job.evaluate(folder / STATE, shards=[one.state for one in shards]), folder)


def make_job(config: EvaluateConfig) -> EvaluationJob:
    """The evaluation that the settings describe; settings of a file's parent hold for the file, too."""
    training_run = training_run_of(config.model)
    if training_run is None and config.parent is not None:
        training_run = training_run_of(config.parent)
    settings = complete(config, training_run)
    if training_run is not None:
        try:
            read_config(training_run.folder)  # now, because the report needs it, after all attacks
        except InputError as error:
            warn_user("bin/evaluate", f"The report leaves the training run out: {error}")
            training_run = None
    baseline = None if config.baseline is None else read_evaluation(config.baseline)
    return EvaluationJob(settings, training_run, repeat_command(config), baseline=baseline)


def complete(config: EvaluateConfig, training_run: Workdir | None) -> EvaluateConfig:
    """Fills in settings that were not given: from the protocol, the model's training run, or the defaults."""
    for norm, epsilon in parse_threat_models(config.norms)[:1]:
        config = dataclasses.replace(config, norm=norm, epsilon=epsilon)
    known = known_settings("bin/evaluate", config.model, training_run)
    published = {}
    if config.protocol:
        protocol = protocol_for(config.protocol, config.dataset or known.get("dataset"))
        config = dataclasses.replace(config, protocol=protocol.name)
        # A published radius takes precedence: its numbers are compared with others at that radius.
        if protocol.epsilon is not None:
            published = {"norm": protocol.norm, "epsilon": protocol.epsilon}
    config = fill_from_run(config, known, published)
    check(config.dataset is not None, "Name the images to evaluate on, such as --dataset=cifar10.")
    return config


SUMMARY = "measures how robust an image classifier is."
LISTED = EXAMPLES + summaries("Protocols", PROTOCOLS)
PROGRAM = Program("bin/evaluate", SUMMARY, LISTED, EvaluateConfig, action, [PLAN, DEVICE])
main = PROGRAM.run

if __name__ == "__main__":
    main()
