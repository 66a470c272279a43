"""Where pairs are kept: the first in full, those that resemble an earlier one as the difference to it.

A difference names the earlier pair (``like``: its name and its first microversion), and by JSON pointer (RFC 6901)
what is set to another value or is there as well (``set``) and what is not there (``without``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
Pair = dict[str, Any]
OWN = ("name", "operation", "since", "until")
"""What every pair in the store says itself; the rest, request and response, may be a difference."""
HEADS = (*OWN, "like")
NEAR = 3
"""A pair is compared with this many before it of its own name, and with all others that begin at its microversion."""


def path_of(service: str, name: str) -> Path:
    return HERE / service / f"{name}.json"


def load(service: str, name: str) -> list[Pair]:
    path = path_of(service, name)
    return whole(json.loads(path.read_text())) if path.exists() else []


def store(service: str, name: str, pairs: list[Pair]) -> None:
    path = path_of(service, name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("[\n" + ",\n".join(map(text_of, short(pairs))) + "\n]\n")


def every_pair() -> Iterator[tuple[str, Pair]]:
    """Everything in the store, with its service."""
    for service in ("compute", "image", "network", "volume"):
        for path in sorted((HERE / service).glob("*.json")):
            for pair in load(service, path.stem):
                yield service, pair


def exactly(pair: Pair) -> str:
    """The pair as text: equal for equal pairs only (Python takes ``1``, ``1.0`` and ``True`` for the same)."""
    return json.dumps(pair, sort_keys=True)


def text_of(entry: Pair) -> str:
    """Write one entry, what it is on the first line."""
    heads = ", ".join(f"{json.dumps(name)}: {json.dumps(entry[name])}" for name in HEADS if name in entry)
    rest = [f"  {json.dumps(name)}: {json_of(value, '  ')}" for name, value in entry.items() if name not in HEADS]
    return " {" + ",\n".join([heads, *rest]) + "}"


def json_of(value: Any, indent: str = "", room: int = 118) -> str:
    """Write JSON with as much on a line as it takes."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + len(indent) <= room or not isinstance(value, dict | list) or not value:
        return line
    deeper = indent + " "
    if isinstance(value, list):
        return "[\n" + ",\n".join(deeper + json_of(each, deeper, room) for each in value) + f"\n{indent}]"
    lines = (f"{deeper}{json.dumps(key)}: {json_of(each, deeper, room)}" for key, each in value.items())
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


# --- differences --------------------------------------------------------------------------------------------------


@dataclass
class Difference:
    """What makes one document of another, by JSON pointer."""

    set: dict[str, Any] = field(default_factory=dict)
    without: list[str] = field(default_factory=list)

    @classmethod
    def between(cls, old: Any, new: Any) -> Difference:
        difference = cls()
        difference._compare(old, new, "")
        return difference

    def _compare(self, old: Any, new: Any, at: str) -> None:
        if isinstance(old, dict) and isinstance(new, dict):
            self._compare_parts(old, new, at)
        elif isinstance(old, list) and isinstance(new, list):
            self._compare_parts(dict(enumerate(old)), dict(enumerate(new)), at)
        elif json.dumps(old) != json.dumps(new):
            self.set[at] = new

    def _compare_parts(self, old: dict[Any, Any], new: dict[Any, Any], at: str) -> None:
        for name in [*new, *(name for name in old if name not in new)]:
            pointer = f"{at}/{str(name).replace('~', '~0').replace('/', '~1')}"
            if name not in new:
                self.without.append(pointer)
            elif name not in old:
                self.set[pointer] = new[name]
            else:
                self._compare(old[name], new[name], pointer)

    def applied(self, old: Any) -> Any:
        """Make the new document of a copy of the old one."""
        new = json.loads(json.dumps(old))
        for pointer in reversed(self.without):  # from the end, so that the places in a list stay what they are
            within, name = _place(new, pointer)
            del within[name]
        for pointer, value in self.set.items():
            within, name = _place(new, pointer)
            if isinstance(within, list) and name == len(within):
                within.append(value)
            else:
                within[name] = value
        return new


def _place(document: Any, pointer: str) -> tuple[Any, Any]:
    """Return the object or list in which a pointer ends, and the name or place in it."""
    *path, last = (part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
    for part in path:
        document = document[int(part) if isinstance(document, list) else part]
    return document, int(last) if isinstance(document, list) else last


def _key(pair: Pair) -> str:
    return f"{pair['name']} {pair['since']}" if "since" in pair else str(pair["name"])


def short(pairs: list[Pair]) -> list[Pair]:
    """Write as differences what is shorter so."""
    written: list[Pair] = []
    for place, pair in enumerate(pairs):
        rest = {name: value for name, value in pair.items() if name not in OWN}
        best = pair
        for other in _candidates(pairs[:place], pair):
            change = Difference.between({name: other[name] for name in rest}, rest)
            entry = {
                "name": pair["name"],
                **({"operation": pair["operation"]} if pair["operation"] != other["operation"] else {}),
                **{name: pair[name] for name in ("since", "until") if name in pair},
                "like": _key(other),
                **({"set": change.set} if change.set else {}),
                **({"without": change.without} if change.without else {}),
            }
            if _size(entry) < _size(best):
                best = entry
        written.append(best)
    return written


def _candidates(earlier: list[Pair], pair: Pair) -> list[Pair]:
    own = [each for each in earlier if each["name"] == pair["name"]][-NEAR:]
    others = [each for each in earlier if each["name"] != pair["name"] and each.get("since") == pair.get("since")]
    return [*reversed(own), *others]


def _size(entry: Pair) -> int:
    return text_of(entry).count("\n")


def whole(written: list[Pair]) -> list[Pair]:
    """Return the pairs that were written, each in full."""
    pairs: dict[str, Pair] = {}
    for entry in written:
        pair = entry
        if "like" in entry:
            other = pairs[entry["like"]]
            change = Difference(entry.get("set", {}), entry.get("without", []))
            rest = change.applied({name: value for name, value in other.items() if name not in OWN})
            own = {"operation": other["operation"], **entry}
            pair = {name: own[name] for name in OWN if name in own} | rest
        pairs[_key(pair)] = pair
    return list(pairs.values())
