"""The sentence that a reader takes away."""

from athe_tf.report.texts import interval_text, percent, plural


def verdict(data: dict) -> str:
    """The evaluation's own verdict or, where it has none, its headline numbers in words."""
    if data.get("verdict"):
        return data["verdict"]
    ran = sum("accuracy" in attack for attack in data["attacks"])
    images = plural(data["examples"], "image")
    clean = f"Of {images}, {percent(data['clean_accuracy'])} are classified correctly"
    if not ran:
        return f"{clean}; no attack was run, so nothing is known about robustness."
    interval = data.get("worst_case_interval")
    bounds = f" (95 % interval {interval_text(interval)})" if interval else ""
    return (
        f"{clean}, and {percent(data['worst_case_accuracy'])}{bounds} still are under the worst of "
        f"{plural(ran, 'attack')} that may change them by {data['epsilon']} in {data['norm']}."
    )


def threat(data: dict) -> str:
    """The threat model in a line."""
    parts = [f"{data['norm']}, epsilon {data['epsilon']}", plural(data["examples"], "image")]
    if "protocol" in data:
        parts.append(f"protocol {data['protocol']}")
    return " · ".join(parts)
