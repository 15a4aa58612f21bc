"""The machinery of attacks: the contract, the victim, parallel batches, the state of a run in a file."""
