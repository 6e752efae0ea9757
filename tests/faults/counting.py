"""How much the tests of faults try, and how often they have tried it."""

import os
from collections import Counter

COUNTS: Counter[str] = Counter()


def is_long() -> bool:
    return os.environ.get("LOBAL_FAULTS") == "long"


def counted(name: str, n: int = 1) -> None:
    COUNTS[name] += n
