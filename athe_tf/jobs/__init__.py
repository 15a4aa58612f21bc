"""One folder of a resumable job; training runs, evaluations, their shards and analyses use the same one.

| file | content |
|---|---|
| `locks.py` | one process at a time writes to a folder |
| `journal.py` | arrays in one file that is replaced as a whole, with the identity they belong to, in parts |
| `ownership.py` | which files athe_tf wrote: only those are replaced or removed, one by one |
| `shard.py` | the share of a job that one of several processes does, and the whole from all shares |

Atomic writing is in `athe_tf/utils/files.py`. What a job is, and how its files are called, is up to its
owner.
"""
