"""The frameworks by name; knows them without importing them, so that a typo is answered at once."""

from athe_tf.utils.registry import Registry

FRAMEWORKS = Registry(
    "framework",
    __package__,
    {
        "standard": "standard:Standard",
        "pgd_at": "pgd_at:PGDAT",
        "alp": "alp:ALP",
        "trades": "trades:TRADES",
        "free_at": "free_at:FreeAT",
        "fast_at": "fast_at:FastAT",
        "mart": "mart:MART",
        "llr": "llr:LLR",
        "cure": "cure:CURE",
    },
)


def get(name: str):
    """The framework class of a name.

    Example:

    >>> athe_tf.training.get("trades").__name__
    'TRADES'
    """
    return FRAMEWORKS.get(name)
