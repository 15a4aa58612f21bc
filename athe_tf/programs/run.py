"""A training run from its first step, or from where it was interrupted, to its export."""

import shutil
import warnings

import numpy as np
import tensorflow as tf

from athe_tf.attacks import PGD
from athe_tf.distribution.strategy import Spread
from athe_tf.programs.backup import Progress, load_state
from athe_tf.programs.build import make_trainer
from athe_tf.programs.callbacks import Backup, BestKeeper, EpochLine, NotFiniteError, Records
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.early_stopping import EarlyStopping
from athe_tf.programs.initial_model import begin_with
from athe_tf.programs.overfitting_guard import OverfittingGuard
from athe_tf.programs.periods import PeriodKeeper, read_ensemble
from athe_tf.programs.workdir import Workdir
from athe_tf.saving.saved_model import export
from athe_tf.training.standard import Standard
from athe_tf.training.swa import SWA
from athe_tf.utils.errors import check
from athe_tf.utils.files import replacing


def train(
    config: TrainConfig,
    splits,
    workdir: Workdir,
    bar: bool = False,
    write=print,
    spread: Spread | None = None,
):
    """Trains what `config` describes, in `workdir`; continues what is there.

    Args:
        config: The settings.
        splits: The data, as `athe_tf.data.load` gives it.
        workdir: Where everything is kept.
        bar: Show Keras' progress bar instead of one line an epoch.
        write: Takes lines for the user.
        spread: What the run is spread over. Defaults to one device. On several workers all call this, with a
            folder that all of them can read; the chief writes.

    Returns:
        The trainer, with the weights of the last step.
    """
    check(
        splits.train is not None and splits.train.steps_per_epoch(config.batch_size) > 0,
        f"The data set '{config.dataset}' has fewer training images than one batch. "
        f"Received: --batch_size={config.batch_size}.",
    )
    spread = spread or Spread()
    spread.check_batch_size(config.batch_size)
    if not spread.is_chief:
        bar, write = False, _say_nothing
    with spread.naming_lost_workers():
        with spread.scope():
            trainer = make_trainer(config, splits)
            if config.initial_model is not None and not workdir.backup.exists():
                begin_with(trainer, config.initial_model)
        if spread.is_chief:
            workdir.claim(config)
        progress = resume(trainer, config, workdir, spread, write)
        if progress.stopped is None:
            fit(trainer, config, splits, workdir, progress, bar, write, spread)
        if progress.stopped is not None:
            write(progress.stopped)
        if spread.is_chief:
            finish(trainer, config, splits, workdir, progress, write)
        # Nobody leaves before the chief has written everything.
        spread.barrier()
    return trainer


def _say_nothing(*args, **kwargs) -> None:
    """What workers other than the chief have to say."""


def resume(trainer, config: TrainConfig, workdir: Workdir, spread: Spread, write) -> Progress:
    """Puts a backup back, where there is one, and returns the progress."""
    progress = Progress()
    if workdir.backup.exists():
        progress = load_state(workdir.backup, trainer)
        write(f"Resuming {workdir.folder} after epoch {progress.epoch}, step {progress.step}.")
    else:
        write(f"Training {config.framework} on {config.dataset} in {workdir.folder}.")
    step = int(np.asarray(trainer.optimizer.iterations))
    chiefs = int(spread.from_chief(step))
    # All ask, so that all stop.
    differs = spread.any(step != chiefs)
    check(
        not differs,
        f"The workers do not see the same backup in --workdir={workdir.folder}: here it is of step {step}, "
        f"at the chief's of step {chiefs}. Use a folder that all workers share.",
    )
    return progress


def fit(
    trainer,
    config: TrainConfig,
    splits,
    workdir: Workdir,
    progress: Progress,
    bar: bool,
    write,
    spread: Spread,
):
    """Runs the epochs that are left; the rest of a half epoch first."""
    steps = splits.train.steps_per_epoch(config.batch_size)
    writes = spread.is_chief
    backup = Backup(workdir.backup, progress, config.backup_minutes, spread)
    callbacks = [
        Records(workdir.metrics, progress, writes=writes),
        BestKeeper(workdir.best, progress, f"val_{trainer.chosen_by}_accuracy", writes),
    ]
    if config.guarded_drop:
        # First, so that its measurement is on record.
        callbacks.insert(0, make_guard(config, splits, workdir, progress, spread))
    if config.swa_start is not None:
        callbacks.insert(0, SWA(config.swa_start, lambda epoch: epoch_batches(config, splits, epoch)))
    if config.ensemble and writes:
        callbacks.append(PeriodKeeper(workdir.periods, config.period_ends, progress))
    if config.early_stopping is not None:
        callbacks.append(EarlyStopping(config.early_stopping, progress, trainer.chosen_by))
    callbacks.append(backup)
    if not bar:
        callbacks.append(EpochLine(config.epochs, progress, write))
    validation = validation_steps = None
    if splits.validation is not None:
        validation, validation_steps = spread.measuring(splits.validation, config.batch_size)

    def run_epochs(until: int, steps_per_epoch: int):
        stream = spread.training(
            splits.train,
            config.batch_size,
            seed=config.seed,
            augmentation=config.augmentation,
            start_step=progress.epoch * steps + progress.step,
            epochs=config.epochs,
        )
        trainer.fit(
            stream,
            initial_epoch=progress.epoch,
            epochs=until,
            steps_per_epoch=steps_per_epoch,
            validation_data=validation,
            validation_steps=validation_steps,
            callbacks=callbacks,
            verbose=1 if bar else 0,
        )

    try:
        with warnings.catch_warnings():
            # Keras warns that it will not shuffle a dataset; ours comes shuffled.
            warnings.filterwarnings("ignore", message="`shuffle=True` was passed")
            if progress.step:
                backup.continue_epoch(trainer)
                run_epochs(progress.epoch + 1, steps - progress.step)
            if progress.epoch < config.epochs and progress.stopped is None:
                run_epochs(config.epochs, steps)
    except tf.errors.InvalidArgumentError as error:
        if "the training loss" in str(error):
            raise NotFiniteError(trainer, "the loss") from None
        raise


def epoch_batches(config: TrainConfig, splits, epoch: int):
    """The training batches of one epoch, counted from 0."""
    return splits.train.stream(
        config.batch_size,
        seed=config.seed,
        augmentation=config.augmentation,
        start_step=epoch * splits.train.steps_per_epoch(config.batch_size),
        epochs=epoch + 1,
    )


def make_guard(
    config: TrainConfig, splits, workdir: Workdir, progress: Progress, spread: Spread
) -> OverfittingGuard:
    """The guard of a run; its images are the first training batch, whatever step the run is at."""
    stream = splits.train.stream(config.batch_size, seed=config.seed, augmentation=config.augmentation)
    images, labels = next(iter(stream))
    return OverfittingGuard(
        images.numpy(),
        labels.numpy(),
        attack=PGD(config.epsilon, config.norm, steps=5, step_size=config.epsilon / 4),
        drop=config.guarded_drop,
        path=workdir.previous_epoch,
        progress=progress,
        spread=spread,
    )


def finish(trainer, config: TrainConfig, splits, workdir: Workdir, progress: Progress, write) -> None:
    """Writes the last model and its export, and clears the backup away."""
    export(trainer.shipped, workdir.saved_model, margin=config.training_margin, replace=True)
    with replacing(workdir.final) as temporary:
        trainer.shipped.save(temporary)
    if config.ensemble:
        finish_ensemble(trainer, config, splits, workdir, write)
    shutil.rmtree(workdir.backup.parent, ignore_errors=True)
    if progress.best is not None:
        write(
            f"Best {trainer.chosen_by} validation accuracy {100 * progress.best:.1f} % after epoch "
            f"{progress.best_epoch}: {workdir.best}"
        )
    write(f"Last model: {workdir.final}, exported to {workdir.saved_model}.")


def finish_ensemble(trainer, config: TrainConfig, splits, workdir: Workdir, write) -> None:
    """Writes the ensemble of the periods, and tells how it does on the validation images."""
    net = read_ensemble(workdir.periods)
    if net is None:
        write("No period came to its end, so there is no ensemble.")
        return
    with replacing(workdir.ensemble) as temporary:
        net.save(temporary)
    told = ""
    if splits.validation is not None:
        judge = Standard(net, validation_attack=trainer.validation_attack, seed=config.seed)
        judge.compile()
        logs = judge.evaluate(splits.validation.batches(config.batch_size), verbose=0, return_dict=True)
        told = f" Robust validation accuracy {100 * logs['robust_accuracy']:.1f} %."
    write(f"Ensemble of all periods: {workdir.ensemble}.{told}")
