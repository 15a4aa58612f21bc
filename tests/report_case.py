"""An evaluation with everything a report can show, built in code; and folders of such evaluations."""

import copy
import json

import numpy as np

from athe_tf.drawing.png import encode
from athe_tf.utils.digests import file_digest

CLASSES, IMAGES = 10, 500
CONFIG = {
    "format": 2,
    "dataset": "digits",
    "model": "small_cnn",
    "framework": "trades",
    "head": "he",
    "scale": 15.0,
    "seed": 0,
}


def full_evaluation() -> dict:
    """Every key of the schema."""
    return copy.deepcopy({**_headline(), **_parts()})


def small_evaluation(accuracy=0.5, **changes) -> dict:
    """The keys that every evaluation has, with one attack."""
    return {
        "format": 2,
        "model": "best.keras",
        "dataset": "digits (test)",
        "examples": 200,
        "epsilon": "0.2",
        "norm": "linf",
        "seed": 0,
        "verdict": "90.0% of 200 images are classified correctly.",
        "clean_accuracy": 0.9,
        "clean_interval": [0.85, 0.93],
        "worst_case_accuracy": accuracy,
        "worst_case_interval": [accuracy - 0.07, accuracy + 0.07],
        "attacks": [_attack("pgd-20", accuracy, examples=200)],
        "warnings": [],
        "versions": {"athe_tf": "0.1.0"},
        **changes,
    }


def write_analysis(folder, name="linearity", **changes):
    """Writes the file of an analysis as `bin/analyze` does, with a picture of one pixel."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.png").write_bytes(encode(np.zeros((1, 1))))
    content = {
        "athe_tf": "analysis",
        "analysis": name,
        "summary": "distance of the loss from its tangent",
        "caption": "Lower is more linear. 4 images.",
        "pictures": [f"{name}.png"],
        "models": [],
        **changes,
    }
    (folder / f"{name}.json").write_text(json.dumps(content))


def write_evaluation(folder, data, config=None, metrics=False, examples=None):
    """Writes `folder/evaluation/evaluation.json` as `bin/evaluate` does, with a training run around it."""
    out = folder / "evaluation"
    out.mkdir(parents=True)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
        data = {**data, "run": "..", "run_digest": file_digest(folder / "config.json")}
    if metrics:
        (folder / "metrics.csv").write_text(metrics_csv())
        (folder / "best.json").write_text(json.dumps({"value": 0.648, "epoch": 16}))
    if examples is not None:
        np.savez(out / "examples.npz", **examples)
    (out / "evaluation.json").write_text(json.dumps(data))
    return out


def metrics_csv(epochs=20) -> str:
    """Curves that rise and level off; the best robust accuracy on held-out images comes in epoch 16."""
    lines = ["epoch,clean_accuracy,loss,robust_accuracy,val_clean_accuracy,val_loss,val_robust_accuracy"]
    for epoch in range(1, epochs + 1):
        rise = 1 - np.exp(-epoch / 4)
        robust = 0.66 * rise - 0.004 * max(0, epoch - 16)
        row = [epoch, 0.96 * rise, 5.2 - 4.3 * rise, 0.8 * rise, 0.94 * rise, 2.4 - 2.1 * rise, robust]
        lines.append(",".join(f"{value:.5g}" for value in row))
    return "\n".join(lines) + "\n"


def example_images(count=8, size=16, channels=3) -> dict:
    """Soft shapes and perturbed copies of them."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:size, :size] / size
    centers = rng.uniform(0.25, 0.75, (count, channels, 2))
    clean = np.stack([
        [0.1 + 0.8 * np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / 0.04) for cx, cy in one] for one in centers
    ])  # fmt: skip
    clean = np.moveaxis(clean, 1, -1).astype("float32")
    adversarial = np.clip(clean + 0.1 * np.sign(rng.normal(size=clean.shape)), 0, 1).astype("float32")
    label = np.arange(count) % CLASSES
    return {
        "clean": clean,
        "adversarial": adversarial,
        "label": label,
        "clean_prediction": label,
        "adversarial_prediction": (label + 3) % CLASSES,
        "attack": np.array(["pgd-20", "autoattack"])[np.arange(count) % 2],
        "norm": np.full(count, 0.1, "float32"),
    }


def _interval(share, images=IMAGES):
    half = 1.96 * (share * (1 - share) / images) ** 0.5
    return [max(0.0, share - half), min(1.0, share + half)]


def _attack(name, accuracy, seconds=2.5, epsilon=0.2, **more):
    return {
        "name": name,
        "accuracy": accuracy,
        "interval": _interval(accuracy),
        "examples": IMAGES,
        "seconds": seconds,
        "queries": 12345,
        "gradients": 10240,
        "nonfinite_gradients": 0,
        "median_norm": 0.2,
        "epsilon": epsilon,
        "settings": {"norm": "linf", "epsilon": epsilon, "steps": 20, "loss": "ce", "logit_scale": "model"},
        "in_worst_case": True,
        **more,
    }


def _headline() -> dict:
    stages = [
        {"name": "apgd-ce", "accuracy": 0.652, "seconds": 20.5},
        {"name": "apgd-t", "accuracy": 0.626, "seconds": 61.0},
        {"name": "fab-t", "accuracy": 0.626, "seconds": 40.2},
        {"name": "square", "accuracy": 0.624, "seconds": 75.8},
    ]
    rng = np.random.default_rng(1)
    norms = [None if value > 0.6 else float(value) for value in rng.gamma(4.0, 0.07, IMAGES)]
    return {
        "format": 2,
        "model": "runs/demo",
        "dataset": "digits (test)",
        "examples": IMAGES,
        "epsilon": "0.2",
        "norm": "linf",
        "seed": 0,
        "clean_accuracy": 0.952,
        "clean_interval": _interval(0.952),
        "worst_case_accuracy": 0.624,
        "worst_case_interval": _interval(0.624),
        "attacks": [
            _attack("fgsm", 0.716, 0.9),
            _attack("pgd-20", 0.668, eight_bit={"tested": 142, "still_adversarial": 71}),
            _attack("cw-linf-20", 0.674),
            _attack("pgd-20", 0.842, epsilon=0.1),
            _attack("deepfool", 0.702, norms=norms, remarks=["2 images ran out of steps"]),
            _attack("autoattack", 0.624, 197.5, stages=stages),
            _attack("spatial", 0.412, in_worst_case=False),
            {"name": "feature", "not_run": "The victim has no features. Give a .keras file."},
        ],
        "warnings": ["Cross-entropy at scale 1 overestimates the accuracy by 4.2 points."],
        "eight_bit": {
            "tested": 730,
            "still_adversarial": 511,
            "accuracy": 0.688,
            "interval": _interval(0.688),
            "flags": {"pgd-20": "1" * 71 + "0" * (IMAGES - 71)},
        },
        "flags": {"clean": "1" * IMAGES},
        "versions": {"athe_tf": "0.1.0", "tensorflow": "2.21.0", "keras": "3.15.1", "python": "3.11.2"},
    }


def _parts() -> dict:
    rng = np.random.default_rng(2)
    edges = list(range(0, 181, 5))
    epsilons, shares = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0), (0.952, 0.9, 0.83, 0.624, 0.31, 0.06, 0.0)
    names = [
        "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur",
        "zoom_blur", "snow", "frost", "fog", "brightness", "contrast", "elastic_transform",
        "pixelate", "jpeg_compression",
    ]  # fmt: skip
    return {
        "verdict": "62.4% of 500 images withstand every attack that was run (95% interval 58.1 to 66.6).",
        "protocol": "full",
        "command": "bin/evaluate --model=runs/demo --protocol=full --max_examples=500 --output=out",
        "settings": {"batch_size": 128, "max_examples": 500},
        "classes": CLASSES,
        "labels": [int(label) for label in rng.integers(0, CLASSES, IMAGES)],
        "per_class": {
            "clean": [float(v) for v in rng.uniform(0.88, 1, CLASSES)],
            "worst_case": [float(v) for v in rng.uniform(0.35, 0.85, CLASSES)],
            "count": [IMAGES // CLASSES] * CLASSES,
        },
        "curve": [
            {"epsilon": epsilon, "accuracy": share, "interval": _interval(share)}
            for epsilon, share in zip(epsilons, shares, strict=True)
        ],
        "threat_models": [
            {"norm": "linf", "epsilon": "0.2", "worst_case_accuracy": 0.624,
             "worst_case_interval": _interval(0.624)},
            {"norm": "l2", "epsilon": "0.5", "worst_case_accuracy": 0.55,
             "worst_case_interval": _interval(0.55)},
        ],
        "union": {"accuracy": 0.51, "interval": _interval(0.51), "mean": 0.587},
        "distances": {
            "attacks": ["deepfool"], "radius": 0.4, "expected_robustness": 0.25, "area": 0.625,
            "median": 0.27,
            "points": [
                {"epsilon": at, "accuracy": 0.95 - at, "interval": _interval(0.95 - at)}
                for at in (0.0, 0.2, 0.4)
            ],
        },
        "randomized": {
            "passes": 16, "needed": 9, "mean_accuracy": 0.6, "majority_accuracy": 0.624, "lower_bound": 0.55
        },
        "judge": {"name": "net"}, "gradient_source": {"name": "net, straight through round"},
        "checks": [
            {"name": "Random noise is weaker than FGSM", "status": "passed",
             "detail": "Noise of the same norm leaves more images right than one step along the gradient.",
             "numbers": {"noise": 0.931, "fgsm": 0.716}},
            {"name": "Black box does not beat white box", "status": "failed",
             "detail": "Square finds images that PGD does not: the gradients are hidden.",
             "numbers": {"square": 0.611, "pgd-20": 0.668, "images": 200}},
            {"name": "More restarts do not help the defender", "status": "not run",
             "detail": "Needs an attack with restarts."},
        ],
        "calibration": {
            "clean": {"ece": 0.043, "bins": _bins(rng, 0.03)},
            "adversarial": {"ece": 0.187, "bins": _bins(rng, -0.18)},
        },
        "angles": {
            "edges": edges,
            "true": _normal(edges, 42, 10),
            "nearest_wrong": _normal(edges, 78, 9),
            "adversarial": {
                "true": _normal(edges, 58, 12), "nearest_wrong": _normal(edges, 64, 10)
            },
        },
        "corruptions": {
            "generated": True,
            "severities": [1, 2, 3, 4, 5],
            "accuracy": {n: [float(v) for v in sorted(rng.uniform(0.3, 0.95, 5))[::-1]] for n in names},
            "groups": {"noise": 0.71, "blur": 0.64, "weather": 0.58, "digital": 0.69},
            "mca": 0.655,
        },
        "verify": [
            {"tool": "foolbox", "attack": "pgd-20", "ours": 0.668, "theirs": 0.674, "difference": -0.006},
            {"tool": "art", "attack": "pgd-20", "not_run": "The package is not installed."},
        ],
        "conversion": {
            "parent": "best.keras",
            "clean_accuracy": 0.958,
            "worst_case_accuracy": 0.61,
            "attacks": ["apgd-ce", "apgd-t", "square-1000"],
            "same_predictions": 0.988,
            "mean_difference": 0.034,
            "largest_difference": 0.41,
        },
        "transfer": {
            "sources": ["runs/demo", "runs/standard"],
            "targets": ["runs/demo", "runs/standard"],
            "attack": "pgd-20",
            "accuracy": [[0.668, 0.41], [0.91, 0.0]],
        },
    }  # fmt: skip


def _bins(rng, shift) -> list[dict]:
    middles = np.linspace(0.05, 0.95, 10)
    return [
        {
            "confidence": float(m),
            "accuracy": float(np.clip(m + shift + rng.normal(0, 0.03), 0, 1)),
            "count": int(8 + 90 * m**3),
        }
        for m in middles
    ]


def _normal(edges, mean, deviation) -> list[int]:
    middles = np.array(edges[:-1]) + 2.5
    return [
        int(v)
        for v in np.round(IMAGES * np.exp(-0.5 * ((middles - mean) / deviation) ** 2) / deviation / 0.5)
    ]
