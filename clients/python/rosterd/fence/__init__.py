"""Writes that a replaced run can no longer do.

Each carries the run's fencing token, and the store refuses it once it has seen a higher one: `Fenced` is raised then.
The lease makes two runs of an item at a time rare; a process that was frozen in the middle of a write can still resume
after its lease, and only the store can detect that. These fences need only the client package that the program has
anyway. Their formats are the same in all languages of rosterd.
"""

from ._fenced import Fenced, Guarded
from ._file import FencedFile
from ._postgres import check_token, create_tokens, fenced_transaction
from ._redis import FencedKeys
from ._s3 import FencedObject

__all__ = [
    "Fenced",
    "FencedFile",
    "FencedKeys",
    "FencedObject",
    "Guarded",
    "check_token",
    "create_tokens",
    "fenced_transaction",
]
