"""Samples of the messages between portal and agents, derived from their types: every field is filled.

Before the contract's version rises, ``python -m tests.support.contract_samples tests/core/contract_N`` freezes the
current version N for the tests of older agents.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from compute_agent.contract.messages import ToAgent, ToPortal

DIRECTIONS: dict[str, Any] = {"to_agent": ToAgent, "to_portal": ToPortal}


def samples(boundary: Any) -> list[dict[str, Any]]:
    """Return one sample or more of each message of a union: all of their literals and alternatives occur in one."""
    kind = inspect.type_info(boundary)
    return [sample for alternative in _alternatives(kind) for sample in _structs(alternative)]


def _alternatives(kind: inspect.Type) -> tuple[inspect.Type, ...]:
    return kind.types if isinstance(kind, inspect.UnionType) else (kind,)


def _structs(kind: inspect.Type) -> list[dict[str, Any]]:
    """Return samples of a struct: as many as its field with the most variants has."""
    assert isinstance(kind, inspect.StructType)
    tag = {kind.tag_field: kind.tag} if kind.tag_field else {}
    variants = {field.encode_name: _values(field.type, field.name) for field in kind.fields}
    most = max(map(len, variants.values()), default=1)
    return [tag | {name: values[number % len(values)] for name, values in variants.items()} for number in range(most)]


def _values(kind: inspect.Type, name: str) -> list[Any]:
    match kind:
        case inspect.UnionType(types=types):
            return [value for alternative in types for value in _values(alternative, name)]
        case inspect.LiteralType(values=literals):
            return list(literals)
        case inspect.StructType(tag=tag):
            return _structs(kind) if tag else _structs(kind)[:1]
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return [[value] for value in _values(item, name)]
        case inspect.DictType(key_type=key, value_type=item):
            return [{_values(key, name)[0]: value} for value in _values(item, name)]
    plain = {
        inspect.StrType: f"a {name}",
        inspect.IntType: 7,
        inspect.FloatType: 1.5,
        inspect.BoolType: True,
        inspect.NoneType: None,
    }
    return [plain[type(kind)]]


def freeze(folder: Path) -> None:
    """Write schema and samples of the current version, a file for each direction."""
    folder.mkdir(exist_ok=True)
    for name, boundary in DIRECTIONS.items():
        content = {"schema": msgspec.json.schema(boundary), "samples": samples(boundary)}
        (folder / f"{name}.json").write_text(json.dumps(content, separators=(",", ":"), sort_keys=True) + "\n")


if __name__ == "__main__":
    freeze(Path(sys.argv[1]))
