"""Layout of the topology: networks are vertical bars, routers and instances boxes between them, connected by lines.

If there are more networks than columns, they are drawn in several bands. Each band contains the external networks of
its routers, and a device with networks in several bands is drawn in each.

This module has no access to the cloud: it converts numbers into coordinates of an SVG's view box.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, Protocol, TypeVar

COLUMN = 216
"""Distance between bars, in pixels."""
BAR = 12
TOP = 64
"""Height of the network headings."""
ROW = 64
BOX_WIDTH = 152
BOX_HEIGHT = 44
BOX_LEFT = 30
"""Distance from a bar to the boxes right of it."""
MARGIN = 16
HUES = 6
"""Number of network colours: ``net-0`` to ``net-5`` in the style sheet."""
MOST_COLUMNS = 5
"""Maximum number of networks in a band, by the width of a page."""
LONGEST_NAME = 17
LONGEST_HEAD = 20

ROUNDS = 8
"""Number of passes; the order converges earlier except in unusual clouds."""
Joined = Sequence[Sequence[Hashable]]
"""The ids of the networks that a device is on, for each device."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A network as a vertical bar; ``x`` and ``height`` in pixels."""

    item: Any
    x: int
    height: int
    hue: int

    @property
    def name(self) -> str:
        return _short(str(self.item), LONGEST_HEAD)

    @property
    def plus(self) -> int:
        """X coordinate of the centre of the launch button."""
        return self.x + COLUMN - 36


@dataclass(frozen=True, slots=True)
class Line:
    """A line from a box to a bar; ``text`` is its label, ``end`` its x coordinate at the bar."""

    x1: int
    x2: int
    y: int
    hue: int
    text: str
    end: int


@dataclass(frozen=True, slots=True)
class Box:
    """A router or an instance."""

    item: Any
    name: str
    x: int
    y: int
    lines: Sequence[Line] = field(default=())
    elsewhere: int = 0
    """Number of the device's networks in other bands."""

    @property
    def text_y(self) -> int:
        return self.y + BOX_HEIGHT // 2


@dataclass(frozen=True, slots=True)
class Picture:
    """A band with the coordinates of all its elements."""

    bars: Sequence[Bar]
    boxes: Sequence[Box]
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Device:
    """A router or instance to be placed; ``legs`` maps the ids of its networks to their labels."""

    item: Any
    name: str
    legs: Mapping[Any, Sequence[str]]


def lay_out(networks: Sequence[Any], devices: Sequence[Device]) -> list[Picture]:
    """Return the bands of networks, with networks that share devices adjacent and external ones first.

    ``networks`` have ``id`` and ``external``. A device with only external networks is in the first band; devices
    without networks are in a separate last band without bars.
    """
    outer = [network for network in networks if network.external]
    legs = [device.legs for device in devices]
    inner = ordered([network for network in networks if not network.external], legs)
    hues = {network.id: number % HUES for number, network in enumerate([*outer, *inner])}
    bands = cut(inner, legs, MOST_COLUMNS - bool(outer)) if len(networks) > MOST_COLUMNS else [inner]
    at = {network.id: number for number, band in enumerate(bands) for network in band}
    inside: list[list[Device]] = [[] for _ in bands]
    apart = [device for device in devices if not hues.keys() & device.legs]
    for device in devices:
        if hues.keys() & device.legs:
            for number in sorted({at[key] for key in device.legs if key in at}) or [0]:
                inside[number].append(device)
    used = {key for keys in legs for key in keys}
    pictures = []
    for number, (band, there) in enumerate(zip(bands, inside, strict=True)):
        linked = {key for device in there for key in device.legs}
        edge = [each for each in outer if each.id in linked or (number == 0 and each.id not in used)]
        if edge or band:
            pictures.append(_band([*edge, *band], there, hues))
    if apart:
        pictures.append(_band([], apart, hues))
    width = max((picture.width for picture in pictures), default=0)  # all bands have the same scale
    return [replace(picture, width=width) for picture in pictures]


def _band(networks: Sequence[Any], devices: Iterable[Device], hues: Mapping[Any, int]) -> Picture:
    """Place the networks in this order and the devices next to their first network.

    Each device has its own row across its networks, so that no line crosses a box.
    """
    columns = {network.id: number for number, network in enumerate(networks)}
    rows: list[list[tuple[int, int]]] = []
    placed: list[tuple[Device, int, list[int]]] = []
    for device in devices:
        on = sorted(columns[key] for key in device.legs if key in columns)
        first, last = (on[0], max(on[-1], on[0] + 1)) if on else (0, 1)
        placed.append((device, _free_row(rows, first, last), on))
    height = TOP + max(len(rows), 1) * ROW + MARGIN
    bars = [Bar(network, _bar_x(at), height - TOP, hues[network.id]) for at, network in enumerate(networks)]
    boxes = [_box(device, row, on, networks, hues) for device, row, on in placed]
    return Picture(bars, boxes, MARGIN + max(len(networks), 1) * COLUMN + MARGIN, height)


def _free_row(rows: list[list[tuple[int, int]]], first: int, last: int) -> int:
    """Reserve the first row that is free between two columns."""
    for number, taken in enumerate(rows):
        if all(last <= start or end <= first for start, end in taken):
            taken.append((first, last))
            return number
    rows.append([(first, last)])
    return len(rows) - 1


def _bar_x(column: int) -> int:
    return MARGIN + column * COLUMN


def _box(device: Device, row: int, on: Sequence[int], networks: Sequence[Any], hues: Mapping[Any, int]) -> Box:
    x = _bar_x(on[0] if on else 0) + BAR + BOX_LEFT
    y = TOP + row * ROW + (ROW - BOX_HEIGHT) // 2
    legs = [(column, text) for column in on for text in device.legs[networks[column].id]]
    sides: dict[bool, list[tuple[int, str]]] = {True: [], False: []}
    for column, text in legs:
        sides[_bar_x(column) < x].append((column, text))
    lines = []
    for left, side in sides.items():
        for number, (column, text) in enumerate(side):  # below each other, to keep lines apart
            at = y + round(BOX_HEIGHT * (number + 1) / (len(side) + 1))
            middle = _bar_x(column) + BAR // 2
            x1, x2 = (middle, x) if left else (x + BOX_WIDTH, middle)
            lines.append(Line(x1, x2, at, hues[networks[column].id], text, middle))
    elsewhere = len(device.legs.keys() & hues.keys()) - len(on)
    return Box(device.item, _short(device.name, LONGEST_NAME), x, y, lines, elsewhere)


def _short(name: str, longest: int) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


class Placed(Protocol):
    """An object with an ``id`` that stands for a network in the drawing."""

    @property
    def id(self) -> Hashable: ...


N = TypeVar("N", bound=Placed)


def ordered(networks: Sequence[N], devices: Iterable[Collection[Hashable]]) -> list[N]:
    """Return the networks with those that share a device adjacent; networks that share none come last.

    Barycentre method: each device is placed at the mean of its networks, each network at the mean of its devices.
    The networks of a device stay together; a network of several devices is placed with the device that has most
    networks.
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
