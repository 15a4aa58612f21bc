"""Hand-chosen slips in the code, each of which some test must notice. One list per package of `athe_tf`."""
