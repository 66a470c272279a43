"""What older builds wrote, made readable without letting it mean more than it did."""

from __future__ import annotations

from typing import Any

import msgspec


def without_network_rules(data: bytes) -> bytes:
    """Take out of a JSON record the security rules whose remote was all guests of a network (``remote_network``).

    The groups behind them are not on record, and without that field, which nothing reads any more, such a rule would
    be open to everybody.  Call it before a stored record with ports is decoded; raises msgspec.DecodeError.
    """
    if b'"remote_network"' not in data:
        return data
    return msgspec.json.encode(_without(msgspec.json.decode(data)))


def _without(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_without(one) for one in node if not (isinstance(one, dict) and one.get("remote_network") is True)]
    return node
