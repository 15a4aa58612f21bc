"""Timing on machines that are shared and noisy: interleaved, best of many, as ratios."""

import time
from collections.abc import Callable


def interleaved(
    candidates: dict, repeats: int = 10, warm_up: int = 2, clock: Callable[[], float] = time.perf_counter
) -> dict:
    """The best time of every candidate, in seconds.

    In each round every candidate runs once, so that a slow minute of the machine hits all of them, and the
    order turns from round to round.

    Args:
        candidates: From names to functions without arguments that wait for their result.
        repeats: Rounds that count.
        warm_up: Rounds before, which compile.
        clock: The time in seconds; `time.process_time` on a machine that others use too.
    """
    best = dict.fromkeys(candidates, float("inf"))
    names = list(candidates)
    for round_index in range(warm_up + repeats):
        turn = round_index % len(names)
        for name in names[turn:] + names[:turn]:
            began = clock()
            candidates[name]()
            if round_index >= warm_up:
                best[name] = min(best[name], clock() - began)
    return best


def table(rows: list[tuple]) -> str:
    """Rows of text, the first of them the heading, as an aligned table in Markdown."""
    columns = list(zip(*[[str(cell) for cell in row] for row in rows], strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    lines = []
    for index, row in enumerate(rows):
        cells = [str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("| " + " | ".join(cells) + " |")
        if index == 0:
            lines.append("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
