"""The sentence that a reader takes away."""

from athe_tf.report.accessors import counts, ran, worst_case
from athe_tf.report.format import interval_text, percent, plural


def verdict(data: dict) -> str:
    """The evaluation's own verdict or, where it has none, its headline numbers in words."""
    if data.get("verdict"):
        return data["verdict"]
    images = plural(data["examples"], "image")
    clean = f"Of {images}, {percent(data['clean_accuracy'])} are classified correctly"
    share, interval = worst_case(data)
    if share is None:
        return f"{clean}; no attack was run within the threat model, so nothing is known about robustness."
    counted = sum(map(counts, ran(data)))
    bounds = f" (95 % interval {interval_text(interval)})" if interval else ""
    return (
        f"{clean}, and {percent(share)}{bounds} still are under the worst of "
        f"{plural(counted, 'attack')} that may change them by {data['epsilon']} in {data['norm']}."
    )


def threat(data: dict) -> str:
    """The threat model in a line."""
    parts = [f"{data['norm']}, epsilon {data['epsilon']}", plural(data["examples"], "image")]
    if "protocol" in data:
        parts.append(f"protocol {data['protocol']}")
    return " · ".join(parts)
