"""A value for omitted parameters, where None has its own meaning."""

import enum
from typing import Literal


class Unset(enum.Enum):
    """The type of ``UNSET``, which means that a parameter was omitted."""

    UNSET = "unset"


UNSET: Literal[Unset.UNSET] = Unset.UNSET
