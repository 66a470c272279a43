"""Kinds of values: described by a JSON schema, read from a body, and converted for responses."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from portal.api.common.validation import Schema
from provisioning.common.values.unset import UNSET

Reader = Callable[[Any], Any]
"""Returns a value of a record."""


class Kind(ABC):
    """One kind of value."""

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The schema in bodies and in the OpenAPI document."""

    def read(self, value: Any) -> Any:
        """Return the value of a body in normal form."""
        return value

    def write(self, value: Any) -> Any:
        """Return a record's value for a response."""
        return value

    def writing(self, read: Reader) -> Reader:
        """Return a function that reads a record's value with ``read`` and writes it; UNSET remains."""
        write = self.write

        def value(row: Any) -> Any:
            found = read(row)
            return found if found is UNSET else write(found)

        return value


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Checked(Kind):
    """A kind that only its schema checks: ``reader`` converts the values of valid bodies, ``writer`` those of records.

    Null is written as null.
    """

    checked_by: Schema
    reader: Callable[[Any], Any] = _same
    writer: Callable[[Any], Any] = _same

    @property
    def schema(self) -> Schema:
        return self.checked_by

    def read(self, value: Any) -> Any:
        return self.reader(value)

    def write(self, value: Any) -> Any:
        return None if value is None else self.writer(value)

    def writing(self, read: Reader) -> Reader:
        writer = self.writer
        if writer is _same:
            return read

        def value(row: Any) -> Any:
            found = read(row)
            return found if found is None or found is UNSET else writer(found)

        return value
