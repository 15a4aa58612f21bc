"""A training run, from its first step or its last backup to its export."""

import contextlib
import dataclasses
import warnings
from collections.abc import Callable

import keras
import numpy as np

from athe_tf.attacks.gradient import PGD
from athe_tf.data.sources import source_fingerprint
from athe_tf.data.splits import Splits
from athe_tf.distribution.strategy import Distribution
from athe_tf.programs import callbacks
from athe_tf.programs.build import epoch_batches, make_trainer, make_validation_attack, start_from
from athe_tf.programs.conditions import changed_conditions, check_workers, conditions
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.heartbeat import Heartbeat
from athe_tf.programs.interruption import INTERRUPTION
from athe_tf.programs.run_state import RunProgress, check_identity, load_state, run_identity
from athe_tf.programs.workdir import Workdir
from athe_tf.saving.saved_model import export
from athe_tf.training.adversarial_model import AdversarialModel
from athe_tf.training.averaging import SWA
from athe_tf.training.gradient_watch import LOSS_NOT_FINITE, GradientWatch
from athe_tf.training.pgd_at import Standard
from athe_tf.training.tensorboard_log import TensorBoardLog
from athe_tf.utils.arithmetic import computed_on
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.files import replacing
from athe_tf.utils.label_checks import most_probable
from athe_tf.utils.number_format import format_number

# Images in the log for TensorBoard.
LOGGED = 8
# Shown at the first Ctrl+C or SIGTERM.
NOTICE = "stopping after this step, with a backup. Press Ctrl+C again to stop at once."


def train(
    config: TrainConfig,
    splits: Splits,
    workdir: Workdir,
    bar: bool = False,
    write: Callable = print,
    distribution: Distribution | None = None,
):
    """Trains as `config` says in `workdir`, or resumes the run that is there.

    Args:
        config: The settings.
        splits: The data, as `athe_tf.data.load` gives it.
        workdir: The folder of the run.
        bar: Show Keras' progress bar instead of one line per epoch.
        write: Called with lines for the user.
        distribution: The devices of the run. Defaults to one device. On several workers, all of them call
            this, with a folder that all of them can read; the chief writes.

    Returns:
        The trainer, with the weights of the last step.
    """
    distribution = distribution or Distribution()
    with distribution.report_lost_workers():
        check_workers(config, splits, distribution)
    check(
        splits.train is not None and splits.train.steps_per_epoch(config.batch_size) > 0,
        f"The data set '{config.dataset}' has fewer training images than one batch. "
        f"Received: --batch_size={config.batch_size}.",
    )
    distribution.check_batch_size(config.batch_size)
    if not distribution.is_chief:
        bar, write = False, lambda *_, **__: None
    with distribution.report_lost_workers():
        with distribution.scope():
            trainer = make_trainer(config, splits)
            if config.initial_model is not None and not workdir.backup.exists():
                start_from(trainer, config)
        return Run(config, splits, workdir, bar, write, distribution, trainer).train()


@dataclasses.dataclass
class Run:
    """A training run: its state, and its parts in the order in which they are executed."""

    config: TrainConfig
    splits: Splits
    workdir: Workdir
    bar: bool
    write: Callable
    distribution: Distribution
    trainer: AdversarialModel
    progress: RunProgress = dataclasses.field(default_factory=RunProgress)

    def train(self) -> AdversarialModel:
        """Executes the rest of the run."""
        seen = self.splits.train.exposure(self.config.batch_size, self.config.epochs)
        if self.distribution.is_chief:
            self.workdir.check_free(self.config)
        self.resume()
        if self.distribution.is_chief:
            fingerprint = source_fingerprint(self.config.dataset, self.config.data_dir)
            records = {"data_fingerprint": fingerprint, "images": seen, "notes": self.progress.remarks}
            self.workdir.claim(self.config, **records, computed_on=computed_on())
        if self.progress.stopped is None:
            self.fit()
        if self.progress.stopped is not None:
            self.write(self.progress.stopped)
        if self.distribution.is_chief:
            self.finish()
        # No worker exits before the chief has written everything.
        self.distribution.barrier()
        return self.trainer

    def resume(self) -> None:
        """Restores a backup, if there is one."""
        folder = self.workdir.folder
        identity, here = run_identity(self.config, self.splits), conditions(self.distribution)
        if self.workdir.backup.exists():
            self.progress = load_state(self.workdir.backup, self.trainer)
            check_identity(self.progress.identity, identity, folder, self.distribution.any_worker)
            self.write(f"Resuming {folder} after epoch {self.progress.epoch}, step {self.progress.step}.")
            self.compare_conditions(here)
        else:
            self.write(f"Training {self.config.framework} on {self.config.dataset} in {folder}.")
        self.progress.identity |= identity
        self.progress.conditions = here
        step = int(np.asarray(self.trainer.optimizer.iterations))
        chiefs = int(self.distribution.from_chief(step))
        # All workers compare, so that all of them stop.
        differs = self.distribution.any_worker(step != chiefs)
        check(
            not differs,
            f"The workers do not see the same backup in --workdir={folder}: here it is of step {step}, "
            f"at the chief's of step {chiefs}. Use a folder that all workers share.",
        )

    def compare_conditions(self, here: dict) -> None:
        """Says, and remembers, that a resumed run will not be exact; refuses it if the user wants that."""
        progress = self.progress
        changed = changed_conditions(progress.conditions, here)
        if self.config.exact_resume and "cores" not in progress.conditions:
            changed = "the backup does not say on how many cores it was made"
        if not changed:
            return
        check(
            not self.config.exact_resume,
            f"The run in {self.workdir.folder} was interrupted under other conditions, so that its weights "
            f"would not be bit-identical. Received: --exact_resume; {changed}. Restore what has changed, or "
            "leave --exact_resume out.",
        )
        progress.remarks.append(
            f"Resumed after epoch {progress.epoch}, step {progress.step}, under other conditions: {changed}. "
            "The weights will not be bit-identical to those of an uninterrupted run."
        )
        self.write(progress.remarks[-1])

    def fit(self) -> None:
        """Runs the remaining epochs, beginning with the rest of an interrupted one."""
        progress, epochs = self.progress, self.config.epochs
        backup = callbacks.Backup(
            self.workdir.backup, progress, self.config.backup_minutes, self.distribution
        )
        found = self.callbacks(backup)
        options: dict = {"callbacks": found, "verbose": 1 if self.bar else 0}
        if self.splits.validation is not None:
            batches, number = self.distribution.eval_dataset(self.splits.validation, self.config.batch_size)
            options |= {"validation_data": batches, "validation_steps": number}
        try:
            with warnings.catch_warnings(), INTERRUPTION.after_this_step(NOTICE), self._lines(found):
                # Keras warns that it does not shuffle a dataset; ours is already shuffled.
                warnings.filterwarnings("ignore", message="`shuffle=True` was passed")
                if progress.step:
                    backup.continue_epoch(self.trainer)
                    self._fit(progress.epoch + 1, self._steps - progress.step, options)
                if progress.epoch < epochs and progress.stopped is None:
                    self._fit(epochs, self._steps, options)
        except InputError as error:
            if str(error).startswith(LOSS_NOT_FINITE):
                raise callbacks.NotFiniteError(self.trainer, "the loss") from None
            raise

    def _lines(self, found: list) -> contextlib.AbstractContextManager:
        """A context in which a log gets a line per epoch, and one every minute; adds a callback for it."""
        config = self.config
        attack = f"{config.validation_attack}, {config.norm} {format_number(config.epsilon)}"
        line = callbacks.EpochLine(config.epochs, self.progress, self.write, attack)
        if self.bar:
            found += [keras.callbacks.ProgbarLogger(), line]  # the line comes when the bar is complete
            return contextlib.nullcontext()
        heartbeat = Heartbeat(self.write, lambda: line.status)
        line.write = heartbeat.write
        found.append(line)
        return heartbeat

    @property
    def _steps(self) -> int:
        assert self.splits.train is not None
        return self.splits.train.steps_per_epoch(self.config.batch_size)

    def _fit(self, until: int, steps: int, options: dict) -> None:
        config, progress = self.config, self.progress
        assert self.splits.train is not None
        start = progress.epoch * self._steps + progress.step
        settings = config.stream_settings | {"epochs": config.epochs, "start_step": start}
        stream = self.distribution.train_dataset(self.splits.train, **settings)
        self.trainer.fit(stream, initial_epoch=progress.epoch, epochs=until, steps_per_epoch=steps, **options)

    def callbacks(self, backup: callbacks.Backup) -> list:
        """The callbacks, in order; averaging and the guard come before the metrics are recorded."""
        config, progress, writes = self.config, self.progress, self.distribution.is_chief
        chosen_by = self.trainer.options.chosen_by
        kept = self.workdir.best, progress, writes, chosen_by
        found: list = [self.trainer.average] if isinstance(self.trainer.average, SWA) else []
        for swa in found:
            swa.batches = lambda epoch: epoch_batches(config, self.splits, epoch, self.distribution)
        if config.guarded_drop:
            # It always probes the first training batch, of images that are not mixed.
            plain = dataclasses.replace(config, mixup=0.0, cutmix=0.0)
            x, y = next(iter(epoch_batches(plain, self.splits, 0)))
            # Labels of extra images may be smoothed, and the attack takes classes.
            batch = [x.numpy(), np.asarray(most_probable(y))]
            attack = PGD(config.epsilon, config.norm, steps=5, step_size=config.epsilon / 4)
            guarded = config.guarded_drop, self.workdir.previous_epoch, progress, self.distribution
            found.append(callbacks.OverfittingGuard(batch, attack, *guarded))
        found.insert(0, GradientWatch(self.write))
        found.append(callbacks.Records(self.workdir.metrics, progress, writes))
        found.append(callbacks.BestKeeper(*kept, images=self._validation_images))
        if config.ensemble and writes:
            found.append(callbacks.PeriodKeeper(self.workdir.periods, progress, config.period_ends))
        if config.early_stopping is not None:
            found.append(callbacks.EarlyStopping(config.early_stopping, progress, chosen_by))
        if config.tensorboard and writes:
            source = self.splits.validation or self.splits.train
            x, y = (values.numpy() for values in next(iter(source.batches(LOGGED))))
            log = self.workdir.folder / "tensorboard"
            found.append(TensorBoardLog(log, x, y, make_validation_attack(self.config)))
        return [*found, backup]

    def finish(self) -> None:
        """Writes the last model and its export, and removes the backup."""
        workdir, progress = self.workdir, self.progress
        shipped = self.trainer.shipped
        export(shipped, workdir.saved_model, margin=self.config.training_margin, replace=True)
        with replacing(workdir.final) as temporary:
            shipped.save(temporary)
        if self.config.ensemble:
            self.finish_ensemble()
        workdir.remove_backup()
        if progress.best is not None:
            self.write(
                f"Best {self.trainer.options.chosen_by} validation accuracy {100 * progress.best:.1f}% "
                f"after epoch {progress.best_epoch}: {workdir.best}"
            )
        note = callbacks.few_images(self._validation_images) if progress.best is not None else ""
        self.write(f"Last model: {workdir.final}, exported to {workdir.saved_model}. {note}".rstrip())

    @property
    def _validation_images(self) -> int | None:
        return None if self.splits.validation is None else len(self.splits.validation)

    def finish_ensemble(self) -> None:
        """Writes the ensemble of the periods, and reports its accuracy on the validation images."""
        net = callbacks.read_ensemble(self.workdir.periods)
        if net is None:
            self.write("No period was finished, so there is no ensemble.")
            return
        with replacing(self.workdir.ensemble) as temporary:
            net.save(temporary)
        accuracy = ""
        if self.splits.validation is not None:
            judge = Standard(net, validation_attack=self.trainer.validation_attack, seed=self.config.seed)
            judge.compile()
            batches = self.splits.validation.batches(self.config.batch_size)
            logs = judge.evaluate(batches, verbose=0, return_dict=True)
            accuracy = f" Robust validation accuracy {100 * logs['robust_accuracy']:.1f}%."
        self.write(f"Ensemble of all periods: {self.workdir.ensemble}.{accuracy}")
