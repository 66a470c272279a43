"""The base of what the Compute API once passed on to other services."""

from typing import ClassVar

from rest_framework.request import Request

from portal.api.common.microversions import Version
from portal.api.compute.base import ComputeView

LAST: Version = (2, 35)
"""The last version of nearly all proxies."""


class ProxyView(ComputeView):
    """A resource of another service; from 2.36 on the Compute API does not pass it on."""

    last_version: ClassVar[Version | None] = LAST
    answered_later: ClassVar[frozenset[str]] = frozenset()
    """Methods that later versions answer alike."""

    def check_rule(self, request: Request) -> None:
        """Answer 404 to anybody from the version on that no longer has it, and then ask the policy."""
        if request.method not in self.answered_later:
            self.require(maximum=self.last_version)
        super().check_rule(request)
