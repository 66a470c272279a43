"""Kinds of values: parsed from a body as in Neutron, converted for responses, and used in filters.

``read`` raises ValueError with Neutron's reason, which follows "Invalid input for x. Reason: ".
"""

import datetime
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import netaddr

from portal.api import frame
from portal.api.network.dialect.query import address, boolean, prefix
from provisioning.common.values.ids import read_id
from provisioning.network import addressing

NAME = 255
"""Characters of names and descriptions."""
NO_MAC = ((0,) * 6, (255,) * 6)
"""Addresses that no interface has: all zeros, and broadcast."""
_SHOWN = 120


def quoted(value: object) -> str:
    """Return an invalid value in quotes for an error message, shortened if long."""
    words = str(value)
    return f"'{words if len(words) <= _SHOWN else words[: _SHOWN - 1] + '…'}'"


class Kind(frame.Kind):
    """One kind of value; ``read`` raises ValueError for an invalid one."""

    def read_filter(self, value: str) -> object:
        """Return the value in the text of a filter."""
        return value


@dataclass(frozen=True)
class Text(Kind):
    """A string with a maximum length."""

    longest: int = NAME
    shortest: int = 0

    @property
    def schema(self) -> frame.Schema:
        return {"type": "string", "minLength": self.shortest, "maxLength": self.longest}

    def read(self, value: object) -> str:
        if not isinstance(value, str):
            raise ValueError(f"{quoted(value)} is not a valid string")  # noqa: TRY004 - a reason of the request
        if len(value) > self.longest:
            raise ValueError(f"{quoted(value)} exceeds maximum length of {self.longest}")
        if len(value.strip()) < self.shortest:
            raise ValueError(f"{quoted(value)} Blank strings are not permitted")
        return value


@dataclass(frozen=True)
class Choice(Kind):
    """One of several fixed values."""

    words: Sequence[str]

    @property
    def schema(self) -> frame.Schema:
        return {"enum": [*self.words]}

    def read(self, value: object) -> str:
        if not isinstance(value, str) or value not in self.words:
            raise ValueError(f"{quoted(value)} is not in {[*self.words]}")
        return value


@dataclass(frozen=True)
class Boolean(Kind):
    """A boolean, in the spellings that Neutron accepts."""

    def read_filter(self, value: str) -> object:
        return boolean(value)

    @property
    def schema(self) -> frame.Schema:
        return {"type": "boolean"}

    def read(self, value: object) -> bool:
        if isinstance(value, bool):
            return value
        known = {"true": True, "1": True, "false": False, "0": False}.get(str(value).lower())
        if known is None or not isinstance(value, str | int):
            raise ValueError(f"{quoted(value)} cannot be converted to boolean")
        return known


@dataclass(frozen=True)
class Integer(Kind):
    """A whole number; text with one is accepted as well."""

    lowest: int
    highest: int

    def read_filter(self, value: str) -> object:
        return frame.number(value)

    @property
    def schema(self) -> frame.Schema:
        return {"type": "integer", "minimum": self.lowest, "maximum": self.highest}

    def read(self, value: object) -> int:
        spelled = isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value, re.ASCII)
        if isinstance(value, bool) or not (isinstance(value, int) or spelled):
            raise ValueError(f"{quoted(value)} is not an integer")
        found = int(str(value))
        if found < self.lowest:
            raise ValueError(f"{quoted(found)} is too small - must be at least '{self.lowest}'")
        if found > self.highest:
            raise ValueError(f"{quoted(found)} is too large - must be no larger than '{self.highest}'")
        return found


@dataclass(frozen=True)
class IPVersion(Integer):
    """4 or 6."""

    lowest: int = 4
    highest: int = 6

    @property
    def schema(self) -> frame.Schema:
        return {"enum": [4, 6]}

    def read(self, value: object) -> int:
        found = super().read(value)
        if found not in {4, 6}:
            raise ValueError(f"{quoted(found)} is not in [4, 6]")
        return found


@dataclass(frozen=True)
class Identity(Kind):
    """The id of a record, with dashes or without."""

    def read_filter(self, value: str) -> object:
        return frame.identity(value)

    @property
    def schema(self) -> frame.Schema:
        return {"type": "string", "format": "uuid"}

    def read(self, value: object) -> uuid.UUID:
        found = read_id(value)
        if found is None:
            raise ValueError(f"{quoted(value)} is not a valid UUID")
        return found

    def write(self, value: uuid.UUID | None) -> str | None:
        return None if value is None else str(value)


class ProjectIdentity(Identity):
    """The id of a project, which Keystone writes without dashes."""

    def write(self, value: uuid.UUID | None) -> str | None:
        return None if value is None else value.hex


@dataclass(frozen=True)
class Address(Kind):
    """An IPv4 or IPv6 address."""

    def read_filter(self, value: str) -> object:
        return address(value)

    @property
    def schema(self) -> frame.Schema:
        return {"type": "string"}

    def read(self, value: object) -> str:
        try:
            return str(addressing.read_address(value))
        except ValueError:
            raise ValueError(f"{quoted(value)} is not a valid IP address") from None


@dataclass(frozen=True)
class Cidr(Kind):
    """An address range as it is written; host bits are kept."""

    def read_filter(self, value: str) -> object:
        return prefix(value)

    @property
    def schema(self) -> frame.Schema:
        return {"type": "string"}

    def read(self, value: object) -> str:
        try:
            found = addressing.read_prefix(value)
        except ValueError:
            raise ValueError(f"{quoted(value)} is not a valid IP subnet") from None
        return str(found)


@dataclass(frozen=True)
class Mac(Kind):
    """A MAC address in any form that netaddr reads, converted to lower case with colons.

    As in Neutron, all zeros and the broadcast address are rejected, but other multicast addresses are not.
    """

    def read_filter(self, value: str) -> object:
        return frame.lower(value)

    @property
    def schema(self) -> frame.Schema:
        return {"type": "string"}

    def read(self, value: object) -> str:
        known = isinstance(value, str) and not any(map(str.isspace, value)) and netaddr.valid_mac(value)
        if not known or (found := netaddr.EUI(value, dialect=netaddr.mac_unix_expanded)).words in NO_MAC:
            raise ValueError(f"{quoted(value)} is not a valid MAC address")
        return str(found)


@dataclass(frozen=True)
class OrNone(Kind):
    """Another kind of value, or null. ``empty``: an empty string is also null."""

    kind: Kind
    empty: bool = False

    @property
    def schema(self) -> frame.Schema:
        return {"anyOf": [self.kind.schema, {"type": "null"}]}

    def read_filter(self, value: str) -> object:
        return self.kind.read_filter(value)

    def read(self, value: object) -> Any:
        return None if value is None or (self.empty and value == "") else self.kind.read(value)

    def write(self, value: Any) -> Any:
        return None if value is None else self.kind.write(value)


@dataclass(frozen=True)
class Many(Kind):
    """A list; ``distinct`` ones reject duplicates. With ``null``, null is an empty list."""

    kind: Kind
    distinct: bool = True
    most: int = 1000
    null: bool = False

    @property
    def schema(self) -> frame.Schema:
        result: frame.Schema = {"type": "array", "items": self.kind.schema, "maxItems": self.most}
        return {"anyOf": [result, {"type": "null"}]} if self.null else result

    def read(self, value: object) -> list[Any]:
        if value is None and self.null:
            return []
        if not isinstance(value, list):
            raise ValueError(f"{quoted(value)} is not a list")  # noqa: TRY004 - a reason of the request
        if len(value) > self.most:
            raise ValueError(f"a list has at most {self.most} items")
        found = [self.kind.read(item) for item in value]
        if self.distinct and any(item in found[:index] for index, item in enumerate(found)):
            raise ValueError(f"Duplicate items in the list: {quoted(value)}")
        return found

    def write(self, value: Any) -> Any:
        return [self.kind.write(item) for item in value]


@dataclass(frozen=True)
class Record(Kind):
    """An object with these fields, of which ``required`` ones must be present."""

    fields: Mapping[str, Kind]
    required: Sequence[str] = ()

    @property
    def schema(self) -> frame.Schema:
        return {
            "type": "object",
            "properties": {name: kind.schema for name, kind in self.fields.items()},
            "required": [*self.required],
            "additionalProperties": False,
        }

    def read(self, value: object) -> frame.Json:
        if not isinstance(value, dict):
            raise ValueError(f"{quoted(value)} is not a dictionary")  # noqa: TRY004 - a reason of the request
        missing = [name for name in self.required if name not in value]
        if missing:
            raise ValueError(f"Expected keys not found: {missing}")
        unknown = [name for name in value if name not in self.fields]
        if unknown:
            raise ValueError(f"Unexpected keys supplied: {quoted(', '.join(unknown))}")
        return {name: self.fields[name].read(item) for name, item in value.items()}

    def write(self, value: Any) -> Any:
        return {name: self.fields[name].write(item) for name, item in value.items()}


@dataclass(frozen=True)
class Free(Kind):
    """An object with arbitrary fields, limited by its length as text; null means an empty object."""

    longest: int = 4095

    @property
    def schema(self) -> frame.Schema:
        return {"type": ["object", "null"]}

    def read(self, value: object) -> frame.Json:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise ValueError(f"{quoted(value)} is not a dictionary")  # noqa: TRY004 - a reason of the request
        if len(str(value)) > self.longest:
            raise ValueError(f"it exceeds maximum length of {self.longest}")
        return value


@dataclass(frozen=True)
class Moment(Kind):
    """A time as Neutron writes it: UTC, without fractions."""

    schema_: frame.Schema = field(default_factory=lambda: {"type": "string", "format": "date-time"})

    @property
    def schema(self) -> frame.Schema:
        return self.schema_

    def read(self, value: object) -> datetime.datetime:
        try:
            found = datetime.datetime.fromisoformat(str(value))
            return found.astimezone(datetime.UTC) if found.tzinfo else found.replace(tzinfo=datetime.UTC)
        except (ValueError, OverflowError):
            raise ValueError(f"{quoted(value)} is not a valid time") from None

    def write(self, value: datetime.datetime | None) -> str | None:
        return None if value is None else value.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


TEXT, BOOLEAN, ID, PROJECT_ID, ADDRESS, CIDR, MAC, MOMENT = (
    Text(), Boolean(), Identity(), ProjectIdentity(), Address(), Cidr(), Mac(), Moment(),
)  # fmt: skip
