"""The runner of benchmarks/recipe_pieces.py: its commands are runs that would start; how it chooses."""

import argparse

import pytest

from athe_tf.programs.train import PROGRAM
from benchmarks import recipe_pieces as pieces


@pytest.fixture
def options(tmp_path):
    given = {"folder": str(tmp_path), "data_dir": "D", "heads": ["linear", "he"], "stages": pieces.STAGES}
    return argparse.Namespace(**given, seeds=[0, 1], epochs=10, images=None, precision=None, test_images=1000)


def test_every_piece_is_a_run_that_would_start_at_equal_passes(options):
    commands = pieces.planned(options)
    trained = [command for command in commands if command[0] == "bin/train"]
    configs = [PROGRAM.read(command)[0] for command in trained]
    assert len({config.workdir for config in configs}) == len(trained) - 2  # plain ones, in two stages
    for config in configs:
        assert config.epochs * pieces.PASSES[config.framework] in (50, 49)
        assert ("slow" in config.workdir) == (config.bn_momentum == 0.99)


def test_the_subset_is_chosen_by_validation_images_alone(options, monkeypatch):
    worth = {"one cycle": 3.0, "N-FGSM": 2.0, "LIET": 1.5, "AdamW": 1.0, "Nesterov": 0.5, "SiLU": -1.0}

    def validated(run):
        # Nesterov helps alone, and not beside one cycle.
        both = {"one cycle", "Nesterov"} <= set(run.pieces)
        return 20 + sum(worth.get(piece, 0.0) for piece in run.pieces) - both

    monkeypatch.setattr(pieces.Run, "validated", property(validated))
    tried = []
    monkeypatch.setattr(pieces.Run, "do", lambda run: tried.append(run.pieces) or run)
    found = pieces.gains(options, "linear")
    assert found == {piece: worth.get(piece, 0.0) for piece in pieces.PIECES}
    assert pieces.best_subset(options, "linear", found) == ("one cycle", "N-FGSM", "AdamW")
    # Two frameworks do not go together, nor do AdamW and Nesterov's momentum.
    assert ("one cycle", "N-FGSM", "LIET") not in tried
    assert not pieces.compatible(pieces.Run(options, "linear", ("AdamW", "Nesterov"), 0))
    assert pieces.compatible(pieces.Run(options, "linear", ("smoothing 0.3", "LIET"), 0))


def test_what_is_finished_is_not_repeated(options, monkeypatch):
    run = pieces.Run(options, "he", (), 0)
    ran = []
    monkeypatch.setattr(pieces.subprocess, "run", lambda command, **_: ran.append(command[1]))
    run.do(attacked=True)
    assert ran == ["bin/train", "bin/evaluate"]
    run.workdir.folder.mkdir()
    run.workdir.final.touch()
    run.do(attacked=True)
    assert ran[2:] == ["bin/evaluate"]
