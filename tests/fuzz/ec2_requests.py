"""Requests for every action of EC2, made of botocore's input shapes: sound ones, wrong ones, and sound ones bent."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from botocore.model import Shape

from portal.api.ec2.actions.every import TABLES
from portal.api.ec2.frame import Action
from portal.api.ec2.protocol import model
from tests.ec2_api.test_matrix import Row
from tests.ec2_api.things import Things, prefix_of
from tests.fuzz.requests import TEXTS
from tests.support.ec2 import pairs_of

PERSONS = ("member", "member", "member", "other", "operator", "wide", "reader")
BOOLEANS = ("true", "false", "True", "0", "perhaps", "")
NUMBERS = ("1", "2", "5", "22", "0", "-1", "65536", "1000", "2147483647", "2147483648", "9" * 30, "1.5", "", "²")
TIMES = ("2026-01-02T03:04:05Z", "2026-01-02", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "now", "")
BLOBS = ("eA==", "c3NoLWVkMjU1MTkgQUFBQQ==", "", "A" * 70_000, "&", "A", "=" * 9)
"""Those that make sense come first."""
WORDS: dict[str, tuple[str, ...]] = {
    "AvailabilityZone": ("nova", "moon"),
    "CidrIp": ("10.0.0.0/24", "0.0.0.0/0", "10.0.0.1/24", "::/0"),
    "CidrBlock": ("10.67.0.0/24", "10.66.0.0/24", "10.0.0.0/8", "fd00::/64"),
    "CidrIpv6": ("::/0", "fd00::/64", "10.0.0.0/8"),
    "DestinationCidrBlock": ("0.0.0.0/0", "10.9.0.0/16", "192.0.2.1/32"),
    "Device": ("/dev/sdf", "/dev/vdb", "/dev/vda", "xvdz"),
    "DeviceName": ("/dev/sdf", "/dev/vdb", "/dev/vda", "/dev/sda1"),
    "Domain": ("vpc", "standard"),
    "GroupName": ("default", "<group-name>", "x"),
    "InstanceType": ("<type>", "m1.small"),
    "IpProtocol": ("tcp", "udp", "icmp", "icmpv6", "-1", "6", "47", "256"),
    "Key": ("Name", "a", "aws:x", "k" * 128),
    "KeyName": ("<key-name>", "x"),
    "NextToken": ("WyJhIiwiYiJd", "W10=", "W1tbW1tbW1tdXV1dXV1d", "eyJhIjoxfQ=="),
    "Owner": ("self", "amazon", "x"),
    "PrivateIpAddress": ("10.66.0.9", "10.0.0.9", "10.66.0.0", "::1"),
    "PublicIp": ("<public-ip>", "203.0.113.9", "10.0.0.9"),
    "RegionName": ("RegionOne", "mars"),
    "SourceRegion": ("RegionOne", "mars"),
    "UserData": ("IyEvYmluL3No", "&"),
    "Value": ("true", "false", "stop", "5"),
    "VirtualName": ("ephemeral0", "ephemeral9", "x"),
    "VolumeType": ("gp3", "standard", "__DEFAULT__", "theirs"),
    "ZoneName": ("nova", "moon"),
}
"""A parameter → texts that mean something there."""
Dice = random.Random


@dataclass(frozen=True, repr=False)
class Sent:
    """A request for an action: parameters as they go over the wire, and who asks."""

    action: str
    pairs: tuple[tuple[str, str], ...]
    person: str

    def __repr__(self) -> str:
        return f"{self.person}: {self.action} {[(name[:120], value[:120]) for name, value in self.pairs[:12]]}"


def requests_for(action: Action, rows: Sequence[Row], things: Things) -> Callable[[Dice], Sent]:
    """Return what makes requests to try: of arguments that do something, of what the model says, and both bent.

    They are thrown by dice that hypothesis seeds: drawing each value by itself would take longer than the requests.
    """
    known = [pairs_of(action.name, json.loads(things.filled(row.arguments or "{}"))) for row in rows]
    maker = _Maker(action, things)

    def made(dice: Dice) -> Sent:
        kind = dice.choice(("known", "both", "both", "made"))
        pairs = [] if kind == "made" else list(dice.choice(known or [[]]))
        if kind != "known":
            pairs += maker.drawn(dice, {name.split(".")[0] for name, _ in pairs})
        for _ in range(dice.choice((0, 0, 0, 1, 1, 2))):
            pairs = _bent(dice, pairs, maker)
        return Sent(action.name, tuple(pairs), dice.choice(PERSONS))

    return made


class _Maker:
    """Values for the shapes of one action."""

    def __init__(self, action: Action, things: Things) -> None:
        self._things = things
        self._shape = model.operation(action.name).input_shape
        self._members = model.members_of(self._shape) if self._shape is not None else {}
        self._heeded = sorted((action.takes | action.ignored) & self._members.keys())
        declared = TABLES[action.name].filters if action.name in TABLES else ()
        self._filters = [*sorted(declared), "tag:Name", "tag-key", "colour"]
        self._every = [each for pool in things.pools.values() for each in pool]

    def drawn(self, dice: Dice, given: set[str]) -> list[tuple[str, str]]:
        """Draw parameters besides those that are given: mostly what the action heeds, and what it requires."""
        if self._shape is None:
            return []
        pool = self._heeded if dice.randrange(8) else sorted(self._members)
        chosen = dice.sample(pool, min(len(pool), dice.randrange(4)))
        required = self._shape.required_members if dice.randrange(8) else []
        names = dict.fromkeys([*required, *chosen])
        made = [pair for name in names for pair in self._member(dice, self._members[name], name, "", 0)]
        return [pair for pair in made if pair[0].split(".")[0] not in given]

    def text(self, dice: Dice, name: str, shape: Shape | None = None) -> str:
        """Draw a text for a parameter of this name, which is right, of another kind, or nonsense."""
        how = dice.randrange(8)
        if how == 0:
            return dice.choice(TEXTS)
        prefix = prefix_of(name)
        if prefix is not None:
            return self._id(dice, prefix, how)
        if shape is not None and shape.enum and how > 1:
            return str(dice.choice(shape.enum))
        if name in WORDS:
            return self._things.filled(dice.choice(WORDS[name]))
        return "".join(
            chr(dice.choice((dice.randrange(32, 127), dice.randrange(0xD800)))) for _ in range(dice.randrange(9))
        )

    def _id(self, dice: Dice, prefix: str, how: int) -> str:
        if how > 2 and prefix in self._things.pools:
            return dice.choice(self._things.pools[prefix])
        return dice.choice(
            (f"{prefix}-0123456789abcdef0", f"{prefix}-12345678", f"{prefix}-1", prefix, *self._every[:20])
        )

    def _member(self, dice: Dice, shape: Shape, name: str, path: str, depth: int) -> Iterator[tuple[str, str]]:
        part = model.parameter_name(shape, name)
        yield from self._value(dice, shape, part, f"{path}.{part}" if path else part, depth)

    def _value(self, dice: Dice, shape: Shape, name: str, path: str, depth: int) -> Iterator[tuple[str, str]]:
        kind = shape.type_name
        if kind == "structure":
            yield from self._structure(dice, shape, path, depth)
        elif kind == "list":
            for number in range(1, dice.choice((1, 1, 1, 2, 3, 0)) + 1):
                yield from self._value(dice, shape.member, name, f"{path}.{number}", depth + 1)
        elif kind == "string":
            yield path, self.text(dice, name, shape)
        else:
            yield path, dice.choice(_OF_KIND[kind] if dice.randrange(3) == 0 else _SOUND[kind])

    def _structure(self, dice: Dice, shape: Shape, path: str, depth: int) -> Iterator[tuple[str, str]]:
        members = model.members_of(shape)
        if shape.name == "Filter":
            yield f"{path}.Name", dice.choice(self._filters)
            pool = (*self._every, "*", "true", "running", *TEXTS)
            yield from ((f"{path}.Value.{number}", dice.choice(pool)) for number in range(1, dice.randrange(4) + 1))
            return
        if not members or depth > 6:
            return
        some = min(len(members), dice.randrange(1, 4 if depth < 3 else 2))
        for each in dict.fromkeys([*shape.required_members, *dice.sample(sorted(members), some)]):
            yield from self._member(dice, members[each], each, path, depth + 1)


_OF_KIND: dict[str, tuple[str, ...]] = {
    "integer": NUMBERS,
    "long": NUMBERS,
    "float": (*NUMBERS, "NaN", "1e400"),
    "double": (*NUMBERS, "NaN", "1e400"),
    "boolean": BOOLEANS,
    "timestamp": TIMES,
    "blob": BLOBS,
}
_SOUND = {kind: values[:4] for kind, values in _OF_KIND.items()} | {"boolean": BOOLEANS[:2]}


def _bent(dice: Dice, pairs: list[tuple[str, str]], maker: _Maker) -> list[tuple[str, str]]:
    """Do one odd thing to the parameters."""
    if not pairs:
        return [(dice.choice(TEXTS), dice.choice(TEXTS))]
    place = dice.randrange(len(pairs))
    name, value = pairs[place]
    without = pairs[:place] + pairs[place + 1 :]
    last = next((part for part in reversed(name.split(".")) if not part.isdigit()), name)
    numbers = [part for part in name.split(".") if part.isdigit()]
    if numbers and dice.randrange(8) == 0:
        before, _, behind = name.partition(f".{numbers[0]}")
        many = range(1, dice.choice((300, 2100)))
        return [*without, *((f"{before}.{number}{behind}", value) for number in many)]
    ways = (
        [*without, (name, maker.text(dice, last))],
        [*without, (name, maker.text(dice, last))],
        [*without, (name, dice.choice(TEXTS))],
        without,
        [*pairs, (name, value)],
        [*without, (name + ".1" * dice.choice((1, 2, 14, 200)), value)],
        [*pairs, (name + dice.choice((".", "..", ".x", ".-1", ".99999999", ".01", "\0")), value)],
        [*pairs, (dice.choice(TEXTS), value)],
        [*pairs, ("DryRun", dice.choice(BOOLEANS))],
        [*pairs, ("ClientToken", dice.choice(("t", "t" * 65, *TEXTS[:9])))],
    )
    return dice.choice(ways)
