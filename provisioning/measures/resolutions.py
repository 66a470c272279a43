"""The three resolutions in which measures are kept, and the spans that pages and the API show."""

from dataclasses import dataclass

MINUTE, HOUR, DAY = 60, 3600, 86_400


@dataclass(frozen=True, slots=True)
class Resolution:
    """Points of some seconds, stored in blocks, and deleted with their block ``kept`` seconds after its end."""

    seconds: int
    points: int
    kept: int

    @property
    def block(self) -> int:
        """Seconds of a block."""
        return self.seconds * self.points


FINE = Resolution(10, 60, HOUR)
MIDDLE = Resolution(60, 90, DAY)
COARSE = Resolution(600, 96, 30 * DAY)
RESOLUTIONS = (FINE, MIDDLE, COARSE)
"""A block of FINE is one point of COARSE and several of MIDDLE; a block of MIDDLE fills one page of SQLite, and so does
a block of COARSE.
"""
SLOTS_A_MINUTE = MINUTE // FINE.seconds


@dataclass(frozen=True, slots=True)
class Span:
    """A time span up to now."""

    name: str
    label: str
    resolution: Resolution

    @property
    def points(self) -> int:
        return self.resolution.kept // self.resolution.seconds


SPANS = {
    span.name: span
    for span in (
        Span("1h", "1 hour", FINE),
        Span("24h", "24 hours", MIDDLE),
        Span("30d", "30 days", COARSE),
    )
}
