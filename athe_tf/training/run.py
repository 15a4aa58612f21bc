"""A training run from its first step, or from where it was interrupted, to its export."""

import shutil
import warnings

import tensorflow as tf

from athe_tf.attacks import PGD
from athe_tf.config import TrainConfig
from athe_tf.errors import check
from athe_tf.files import replacing
from athe_tf.recipe import make_trainer
from athe_tf.saved_model import export
from athe_tf.training.callbacks import Backup, BestKeeper, EpochLine, NotFiniteError, Records
from athe_tf.training.early_stopping import EarlyStopping
from athe_tf.training.overfitting_guard import OverfittingGuard
from athe_tf.training.state import Progress, load_state
from athe_tf.workdir import Workdir


def train(config: TrainConfig, splits, workdir: Workdir, bar: bool = False, write=print):
    """Trains what `config` describes, in `workdir`; continues what is there.

    Args:
        config: The settings.
        splits: The data, as `athe_tf.data.load` gives it.
        workdir: Where everything is kept.
        bar: Show Keras' progress bar instead of one line an epoch.
        write: Takes lines for the user.

    Returns:
        The trainer, with the weights of the last step.
    """
    check(
        splits.train is not None and splits.train.steps_per_epoch(config.batch_size) > 0,
        f"The data set '{config.dataset}' has fewer training images than one batch. "
        f"Received: --batch_size={config.batch_size}.",
    )
    trainer = make_trainer(config, splits)
    workdir.claim(config)
    progress = Progress()
    if workdir.backup.exists():
        progress = load_state(workdir.backup, trainer)
        write(f"Resuming {workdir.folder} after epoch {progress.epoch}, step {progress.step}.")
    else:
        write(f"Training {config.framework} on {config.dataset} in {workdir.folder}.")
    if progress.stopped is None:
        fit(trainer, config, splits, workdir, progress, bar, write)
    if progress.stopped is not None:
        write(progress.stopped)
    finish(trainer, config, workdir, progress, write)
    return trainer


def fit(trainer, config: TrainConfig, splits, workdir: Workdir, progress: Progress, bar: bool, write):
    """Runs the epochs that are left; the rest of a half epoch first."""
    steps = splits.train.steps_per_epoch(config.batch_size)
    backup = Backup(workdir.backup, progress, config.backup_minutes)
    callbacks = [Records(workdir.metrics, progress), BestKeeper(workdir.best, progress)]
    if config.guarded_drop:
        # First, so that its measurement is on record.
        callbacks.insert(0, make_guard(config, splits, workdir, progress))
    if config.early_stopping is not None:
        callbacks.append(EarlyStopping(config.early_stopping, progress))
    callbacks.append(backup)
    if not bar:
        callbacks.append(EpochLine(config.epochs, progress, write))
    stream = splits.train.stream(
        config.batch_size,
        seed=config.seed,
        augmentation=config.augmentation,
        start_step=progress.epoch * steps + progress.step,
        epochs=config.epochs,
    )
    validation = None if splits.validation is None else splits.validation.batches(config.batch_size)

    def run_epochs(until: int, steps_per_epoch: int):
        trainer.fit(
            stream,
            initial_epoch=progress.epoch,
            epochs=until,
            steps_per_epoch=steps_per_epoch,
            validation_data=validation,
            callbacks=callbacks,
            verbose=1 if bar else 0,
        )

    try:
        with warnings.catch_warnings():
            # Keras warns that it will not shuffle a dataset; ours comes shuffled.
            warnings.filterwarnings("ignore", message="`shuffle=True` was passed")
            if progress.step:
                backup.continue_epoch(trainer)
                first = progress.step
                run_epochs(progress.epoch + 1, steps - first)
                stream = stream.skip(steps - first)
            if progress.epoch < config.epochs and progress.stopped is None:
                run_epochs(config.epochs, steps)
    except tf.errors.InvalidArgumentError as error:
        if "the training loss" in str(error):
            raise NotFiniteError(trainer, "the loss") from None
        raise


def make_guard(config: TrainConfig, splits, workdir: Workdir, progress: Progress) -> OverfittingGuard:
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
    )


def finish(trainer, config: TrainConfig, workdir: Workdir, progress: Progress, write) -> None:
    """Writes the last model and its export, and clears the backup away."""
    export(trainer.shipped, workdir.saved_model, margin=config.training_margin, replace=True)
    with replacing(workdir.final) as temporary:
        trainer.shipped.save(temporary)
    shutil.rmtree(workdir.backup.parent, ignore_errors=True)
    if progress.best is not None:
        write(
            f"Best robust validation accuracy {100 * progress.best:.1f} % after epoch {progress.best_epoch}: "
            f"{workdir.best}"
        )
    write(f"Last model: {workdir.final}, exported to {workdir.saved_model}.")
