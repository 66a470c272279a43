"""Microversions: the API version of a request (API-SIG microversion specification)."""

import re
from dataclasses import dataclass

from rest_framework.exceptions import NotAcceptable
from rest_framework.request import Request

from provisioning.common.errors import InvalidInputError

Version = tuple[int, int]
OLDEST: Version = (0, 0)
NEWEST: Version = (999, 999)
"""Upper end of an open range: ``(2, 26), NEWEST``."""

_FORM = re.compile(r"([1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,3})", re.ASCII)


def text_of(version: Version) -> str:
    """Format a version as ``2.1``."""
    return f"{version[0]}.{version[1]}"


@dataclass(frozen=True, slots=True)
class Microversions:
    """The microversions that a service supports and the headers that carry them."""

    service_type: str
    minimum: Version
    maximum: Version
    legacy_header: str | None = None
    """Older header with the bare version, e.g. ``X-OpenStack-Nova-API-Version``."""

    def requested(self, request: Request) -> Version:
        """Return the version of the request: the minimum without a header, the maximum for ``latest``.

        Raises InvalidInputError if it is malformed and NotAcceptable (406) if it is out of range.
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
        """Return the requested version; of several entries for this service in the header the last applies."""
        for part in reversed(request.headers.get("OpenStack-API-Version", "").split(",")):
            name, _, version = part.strip().partition(" ")
            if name.lower() == self.service_type and version.strip():
                return version.strip().lower()
        legacy = request.headers.get(self.legacy_header, "").strip() if self.legacy_header else ""
        return legacy.lower() or None

    def headers(self, version: Version) -> dict[str, str]:
        headers = {"OpenStack-API-Version": f"{self.service_type} {text_of(version)}"}
        if self.legacy_header:
            headers[self.legacy_header] = text_of(version)
        return headers

    @property
    def vary(self) -> tuple[str, ...]:
        """The request headers that a response varies with."""
        return ("OpenStack-API-Version", *([self.legacy_header] if self.legacy_header else []))
