"""The order of the networks in the topology, and its division: networks that share a device are adjacent."""

from collections.abc import Collection, Hashable, Iterable, Sequence
from statistics import fmean
from typing import Protocol, TypeVar

ROUNDS = 8
"""Number of passes; the order converges earlier except in unusual clouds."""


class Placed(Protocol):
    """A network with its id."""

    @property
    def id(self) -> Hashable: ...


N = TypeVar("N", bound=Placed)
Joined = Sequence[Sequence[Hashable]]
"""The ids of the networks that a device is on, for each device."""


def ordered(networks: Sequence[N], devices: Iterable[Collection[Hashable]]) -> list[N]:
    """Return the networks with those that share a device adjacent; networks that share none come last.

    Barycentre method: each device is placed at the mean of its networks, each network at the mean of its devices. The
    networks of a device stay together; a network of several devices is placed with the one that has most networks.
    """
    place: dict[Hashable, float] = {network.id: number for number, network in enumerate(networks)}
    joined = joins(networks, devices)
    first: dict[Hashable, int] = {}
    for number, keys in sorted(enumerate(joined), key=lambda each: -len(each[1])):
        first |= {key: number for key in keys if key not in first}
    result = list(networks)
    for _ in range(ROUNDS):
        middles = [fmean(place[key] for key in keys) for keys in joined]
        pulls = {key: fmean(middles[number] for number, keys in enumerate(joined) if key in keys) for key in first}
        groups = {
            number: fmean(pulls[key] for key, of_key in first.items() if of_key == number)
            for number in set(first.values())
        }
        weights = {key: (groups[number], number, pulls[key]) for key, number in first.items()}
        result.sort(key=lambda network: (network.id not in weights, weights.get(network.id, ())))
        place = {network.id: number for number, network in enumerate(result)}
    return result


def cut(networks: Sequence[N], devices: Iterable[Collection[Hashable]], most: int) -> list[list[N]]:
    """Return the networks in bands of ``most``, or one more if that keeps a device's networks together."""
    joined = joins(networks, devices)
    left, bands = list(networks), []
    while len(left) > most:
        ends = range(max(1, most // 2), min(most + 1, len(left)) + 1)
        end = min(ends, key=lambda end: (_across(left, end, joined), end > most, -end))
        bands.append(left[:end])
        left = left[end:]
    return [*bands, left] if left or not bands else bands


def joins(networks: Iterable[Placed], devices: Iterable[Collection[Hashable]]) -> Joined:
    """Return for each device with several networks the ids of its networks that are among ``networks``."""
    known = {network.id for network in networks}
    result = [[key for key in keys if key in known] for keys in devices if len(keys) > 1]
    return [keys for keys in result if keys]


def _across(networks: Sequence[Placed], end: int, joined: Joined) -> int:
    """Return the number of devices with networks on both sides of a cut."""
    before, behind = {network.id for network in networks[:end]}, {network.id for network in networks[end:]}
    return sum(not before.isdisjoint(keys) and not behind.isdisjoint(keys) for keys in joined)
