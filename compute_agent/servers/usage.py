"""Samples: rates between two readings of the hypervisor's counters."""

import time
from collections.abc import Callable, Sequence

from compute_agent.contract.samples import CURRENT, GUEST_SERIES, HOST_SERIES, MOST_GUESTS, GuestSample, Samples
from compute_agent.virt.driver import ComputeDriver, Values


class Sampler:
    """Reads a host's counters and remembers the previous reading."""

    def __init__(self, driver: ComputeDriver, clock: Callable[[], float] = time.monotonic) -> None:
        self._driver, self._clock = driver, clock
        self._at = clock()
        self._host: Values = ()
        self._guests: dict[str, Values] = {}

    def samples(self) -> Samples:
        """Return the usage since the previous call. Blocks while the hypervisor answers.

        A subject's first reading has no rates. A counter that has decreased was restarted, and has no rate either.
        Raises HypervisorUnavailableError.
        """
        usage, now = self._driver.usage(), self._clock()
        seconds, before, host = now - self._at, self._guests, self._host
        self._at, self._host, self._guests = now, usage.host, usage.guests
        guests = [
            GuestSample(instance_id=uuid, values=_rates(GUEST_SERIES, values, before.get(uuid, ()), seconds))
            for uuid, values in sorted(usage.guests.items())[:MOST_GUESTS]
        ]
        return Samples(host=_rates(HOST_SERIES, usage.host, host, seconds), guests=guests)


def _rates(series: Sequence[str], values: Values, before: Values, seconds: float) -> list[float | None]:
    earlier = before or (None,) * len(values)
    return [_rate(*each, seconds) for each in zip(series, values, earlier, strict=True)]


def _rate(series: str, value: float | None, before: float | None, seconds: float) -> float | None:
    if value is None or series in CURRENT:
        return None if value is None else round(value, 3)
    if before is None or value < before or seconds <= 0:
        return None
    return round((value - before) / seconds, 3)
