"""What a division of the work saves: memory of shards and merges, starts on folders of many files.

    python -m benchmarks.scale shards
    python -m benchmarks.scale folder

`shards` evaluates 1/64 of 50,000 images of 32 x 32 x 3 as a shard and alone, and merges shards of them; it
prints the peak memory of each process. `folder` makes folders of 10,000 and of 100,000 files and prints how
long the start of a training takes, its memory, and how many of the files are opened until the first batch.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

FGSM = ["--attacks=fgsm", "--epsilon=8/255", "--nochecks"]
# Run in a process of its own: a program, then its own peak memory, the largest before it read images, and the
# code of its end. `ru_maxrss` would be that of the parent at the time of the fork.
PROBE = """
import sys
def peak(name="VmHWM"):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) / 1024
from athe_tf.programs import evaluation_job
from athe_tf.programs.{program} import main
started = []
opened = evaluation_job.EvaluationJob.evaluate
def evaluate(self, *args, **kwargs):
    started.append(peak("VmRSS"))
    return opened(self, *args, **kwargs)
evaluation_job.EvaluationJob.evaluate = evaluate
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("MiB", peak(), started[-1])
"""
START = """
import sys, time
began = time.perf_counter()
opened = []
sys.addaudithook(lambda event, args: opened.append(args[0]) if event == "open" else None)
import tensorflow as tf
from athe_tf import data
imported = time.perf_counter()
def memory():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
before = memory()
train = data.load("folder:" + sys.argv[1], image_size=8, streamed=True, cache=sys.argv[2]).train
loaded = time.perf_counter()
next(iter(train.stream(32, seed=0)))
print(loaded - imported, time.perf_counter() - loaded, memory() - before)
"""


def run(code: str, *arguments: str, before=()) -> str:
    """What a new process printed."""
    command = [*before, sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shards(folder: pathlib.Path, images: int, count: int) -> None:
    """Prints the memory of a shard, of as many images alone, and of a merge."""
    make = (
        "import keras, sys; from keras.layers import Dense, Flatten, Input; "
        "keras.Sequential([Input((32, 32, 3)), Flatten(), Dense(10)]).save(sys.argv[1])"
    )
    model = folder / "net.keras"
    run(make, str(model))
    random = np.random.default_rng(0)
    x, y = random.integers(0, 256, [images, 32, 32, 3], np.uint8), np.arange(images) % 10
    rows = slice(2, None, count)
    for name, part in (("all", slice(None)), ("part", rows)):
        np.savez(folder / f"{name}.npz", x_train=x[:50], y_train=y[:50], x_test=x[part], y_test=y[part])
    del x

    def evaluate(name: str, *flags: str) -> float:
        said = run(
            PROBE.format(program="evaluate"),
            f"--model={model}",
            f"--dataset=npz:{folder / name}.npz",
            *FGSM,
            *flags,
        )
        return float(said.split()[-2])

    alone = evaluate("part")
    shard = evaluate("all", f"--shard=3/{count}", f"--output={folder / 'shard'}")
    few = 4
    for number in range(1, few + 1):
        evaluate("all", f"--shard={number}/{few}", f"--output={folder / 'merge'}")
    whole = evaluate("all", f"--output={folder / 'whole'}")
    merge, start = map(
        float, run(PROBE.format(program="report"), "--merge", str(folder / "merge")).split()[-2:]
    )
    found = [(folder / name / "evaluation.json").read_text() for name in ("whole", "merge")]
    strip = ["seconds", "command"]
    same = [[line for line in text.splitlines() if not any(word in line for word in strip)] for text in found]
    print(f"{images:,} images of 32 x 32 x 3, FGSM on a linear model; peak memory of a process, in MiB")
    print(f"1/{count} of them alone      {alone:8.0f}")
    print(f"--shard=3/{count}            {shard:8.0f}   {shard / alone:.2f} times that")
    print(f"all in one process     {whole:8.0f}")
    print(f"merge of {few} shards      {merge:8.0f}   {merge - start:.0f} above its start")
    print(
        f"evaluation.json of the merge and of one process: {'equal' if same[0] == same[1] else 'DIFFERENT'}"
    )


def folders(folder: pathlib.Path, counts) -> None:
    """Prints the time and memory of the first start on folders of many files, and of the next."""
    import struct
    import zlib

    def chunk(kind, content):
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    pixels = zlib.compress(b"".join(b"\0" + bytes(24) for _ in range(8)))
    header = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    print("files     start  load s  first batch s  MiB above the imports  files opened")
    for count in counts:
        root = folder / str(count)
        for part, size in (("train", count), ("test", 100)):
            for label in range(100):
                place = root / part / f"class{label:03}"
                place.mkdir(parents=True)
                for number in range(size // 100):
                    (place / f"{number}.png").write_bytes(png)
        for start in ("first", "next"):
            trace = folder / "trace"
            before = ["strace", "-f", "-qq", "-e", "trace=openat,open", "-o", str(trace)]
            said = run(START, str(root), str(folder / f"list{count}"))
            run(START, str(root), str(folder / f"traced{count}"), before=before)
            opened = sum(str(root) in line and ".png" in line for line in trace.read_text().splitlines())
            load, batch, memory = map(float, said.split()[-3:])
            print(f"{count:<9,} {start:<6} {load:6.2f} {batch:13.2f} {memory:21.0f} {opened:13}")


def main() -> None:
    """Runs one of the two."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("shards", "folder"))
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--shards", type=int, default=64)
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with tempfile.TemporaryDirectory() as folder:
        if arguments.what == "shards":
            shards(pathlib.Path(folder), arguments.images, arguments.shards)
        else:
            folders(pathlib.Path(folder), (10_000, 100_000))


if __name__ == "__main__":
    main()
