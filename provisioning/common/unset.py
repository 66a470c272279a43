"""A value for what a request does not say, where None has a meaning of its own."""

import enum
from typing import Literal


class Unset(enum.Enum):
    """The one value that says nothing."""

    UNSET = "unset"


UNSET: Literal[Unset.UNSET] = Unset.UNSET
