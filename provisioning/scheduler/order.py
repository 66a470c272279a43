"""Computes the weights of many hosts, and picks the best of them."""

import heapq
import random
from collections.abc import Sequence
from typing import TypeVar

from provisioning.scheduler.spec import HostState, RequestSpec
from provisioning.scheduler.weighers import Weigher

Key = TypeVar("Key", float, tuple[int, int])


def shares(hosts: Sequence[HostState], spec: RequestSpec, weighers: Sequence[Weigher]) -> dict[str, list[float]]:
    """Return weigher → its part of the weight of each host, between 0 and its multiplier. Weighers that rate all hosts
    equal are omitted.
    """
    result = {}
    for weigher in weighers:
        if not weigher.multiplier or not weigher.applies(spec):
            continue
        raw = weigher.weigh_all(hosts, spec)
        low, high = min(raw), max(raw)
        if low < high:
            scale = weigher.multiplier / (high - low)
            result[weigher.name] = [(value - low) * scale for value in raw]
    return result


def best(keys: Sequence[Key], most: int, choose: random.Random) -> list[int]:
    """Return the indexes of the ``most`` greatest keys, greatest first; equal keys are in random order."""
    if len(keys) <= most:
        order = list(range(len(keys)))
        choose.shuffle(order)
        return sorted(order, key=keys.__getitem__, reverse=True)
    edge = heapq.nlargest(most, keys)[-1]
    above = [index for index, key in enumerate(keys) if key > edge]
    choose.shuffle(above)
    above.sort(key=keys.__getitem__, reverse=True)
    level = [index for index, key in enumerate(keys) if key == edge]
    return above + choose.sample(level, most - len(above))
