"""Microversions: which edition of an API a request speaks (api-sig's microversion specification)."""

import re
from dataclasses import dataclass

from rest_framework.exceptions import NotAcceptable
from rest_framework.request import Request

from provisioning.common.errors import InvalidInputError

Version = tuple[int, int]
OLDEST: Version = (0, 0)
NEWEST: Version = (999, 999)
"""The ends of a range that is open: ``(2, 26), NEWEST``."""

_FORM = re.compile(r"([1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,3})", re.ASCII)


def text_of(version: Version) -> str:
    """Return ``2.1``."""
    return f"{version[0]}.{version[1]}"


@dataclass(frozen=True, slots=True)
class Microversions:
    """The range that a service speaks and the headers that name it."""

    service_type: str
    minimum: Version
    maximum: Version
    legacy_header: str | None = None
    """A header with the bare version, e.g. ``X-OpenStack-Nova-API-Version``."""

    def requested(self, request: Request) -> Version:
        """Return the version of the request: the smallest without a header, the largest for ``latest``.

        Raises InvalidInputError when it is malformed and NotAcceptable (406) when it is out of range.
        """
        text = self._header(request)
        if text is None:
            return self.minimum
        if text == "latest":
            return self.maximum
        found = _FORM.fullmatch(text)
        if found is None:
            raise InvalidInputError(
                f"API Version String {text[:40]!r} is of invalid format. Must be of format MajorNum.MinorNum."
            )
        version = (int(found[1]), int(found[2]))
        if not self.minimum <= version <= self.maximum:
            raise NotAcceptable(
                f"Version {text} is not supported by the API. "
                f"Minimum is {text_of(self.minimum)} and maximum is {text_of(self.maximum)}."
            )
        return version

    def _header(self, request: Request) -> str | None:
        """Return the version asked for; of several services in the header the last line for this one."""
        for part in reversed(request.headers.get("OpenStack-API-Version", "").split(",")):
            name, _, version = part.strip().partition(" ")
            if name.lower() == self.service_type and version.strip():
                return version.strip().lower()
        legacy = request.headers.get(self.legacy_header, "").strip() if self.legacy_header else ""
        return legacy.lower() or None

    def headers(self, version: Version) -> dict[str, str]:
        said = {"OpenStack-API-Version": f"{self.service_type} {text_of(version)}"}
        if self.legacy_header:
            said[self.legacy_header] = text_of(version)
        return said

    @property
    def vary(self) -> tuple[str, ...]:
        """The request headers on which an answer depends."""
        return ("OpenStack-API-Version", *([self.legacy_header] if self.legacy_header else []))
