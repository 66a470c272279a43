"""Units of graphs: the same table formats values here and in graphs.js."""

import math
from dataclasses import dataclass

JOINED = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class Unit:
    """Names of a unit and of its multiples, smallest first."""

    steps: tuple[tuple[float, str], ...]

    def text(self, value: float | None) -> str:
        """Format a value with three digits and the largest unit that it reaches."""
        if value is None:
            return "\N{EN DASH}"
        size, name = next((step for step in reversed(self.steps) if value >= step[0]), self.steps[0])
        amount = value / size
        digits = 0 if amount >= 99.95 or amount == 0 else 1 if amount >= 9.995 else 2
        text = f"{amount:.{digits}f}"
        text = text.rstrip("0").rstrip(".") if digits else text
        return f"{text}{JOINED}{name}" if name else text

    @property
    def table(self) -> str:
        """The sizes and names of the steps as text, ``1 MiB|1024 GiB``: graphs.js reads it from the page."""
        return "|".join(f"{size:g} {name}" for size, name in self.steps)

    def above(self, value: float) -> float:
        """Return a round number of the unit that is not below the value, as the end of an axis."""
        if value <= 0:
            return self.steps[0][0]
        size = next((step[0] for step in reversed(self.steps) if value >= step[0]), self.steps[0][0])
        power = 10.0 ** math.floor(math.log10(value / size))
        return next(size * power * each for each in (1, 2, 2.5, 5, 10) if value <= size * power * each * 1.0001)


PERCENT = Unit(((1, "%"),))
MEBIBYTES = Unit(((1, "MiB"), (1024, "GiB"), (1024**2, "TiB")))
GIBIBYTES = Unit(((1, "GiB"), (1024, "TiB")))
BYTES = Unit(((1, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s")))
PER_SECOND = Unit(((1, "/s"), (1e3, "k/s"), (1e6, "M/s")))
PLAIN = Unit(((1, ""),))
VCPUS = Unit(((1, "vCPUs"),))
