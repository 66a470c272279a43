"""Base of the Compute API's proxies of other services."""

from typing import ClassVar

from rest_framework.request import Request

from portal.api.common.microversions import Version
from portal.api.compute.base import ComputeView

LAST: Version = (2, 35)
"""The last version of nearly all proxies."""


class ProxyView(ComputeView):
    """A resource of another service; not available from 2.36 on."""

    last_version: ClassVar[Version | None] = LAST
    answered_later: ClassVar[frozenset[str]] = frozenset()
    """Methods that the API also has after ``last_version``, with the same response."""

    def check_rule(self, request: Request) -> None:
        """Answer 404 in versions that no longer have the method, then check the policy."""
        if request.method not in self.answered_later:
            self.require(maximum=self.last_version)
        super().check_rule(request)

    def policy_target(self) -> dict[str, object]:
        """Return the caller's project, for rules of the other services."""
        return {"project_id": self.context.project_id}
