"""How attacks are run: the contract, the victim, batches side by side, the state of a run on the disk."""
