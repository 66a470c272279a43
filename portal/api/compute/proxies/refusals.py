"""Views that only refuse: 410 for what was removed from the Compute API, 501 for what this cloud does not do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import Version
from portal.api.compute.base import ComputeView
from provisioning.common.errors import GoneError, NotOfferedError, NovellaError

GONE = "This resource is no longer available. No forwarding address is given."


class ProxyView(ComputeView):
    """What other services do themselves; from 2.36 on the Compute API does not pass it on."""

    last_version: ClassVar[Version] = (2, 35)
    answered_later: ClassVar[frozenset[str]] = frozenset()
    """Methods that later versions answer alike."""

    def check_rule(self, request: Request) -> None:
        """Say that there is nothing, whoever asks, from the version on that has it no longer."""
        if request.method not in self.answered_later:
            self.require(maximum=self.last_version)
        super().check_rule(request)


def gone(*methods: str) -> Any:
    """Return a view class that answers these methods (``GET`` …) with 410, at every microversion."""
    return refusing(ComputeView, "compute:removed", lambda: GoneError(GONE), *methods)


def not_offered(base: type[ComputeView], rule: str, sentence: str, *methods: str) -> Any:
    """Return a view class that answers these methods with 501 and a sentence."""
    return refusing(base, rule, lambda: NotOfferedError(sentence), *methods)


def refusing(base: type[ComputeView], rule: str, error: Callable[[], NovellaError], *methods: str) -> Any:
    """Return a view class that answers these methods with an error, to who passes the rule."""

    def handler(self: ComputeView, request: Request, **named: str) -> Response:
        """Refuse."""
        raise error()

    members: dict[str, Any] = {method.lower(): handler for method in methods}
    members |= {
        "__module__": __name__,
        "__doc__": f"Refuses {', '.join(methods)}.",
        "http_method_names": [*members, *(["head"] if "GET" in methods else [])],
        "rules": dict.fromkeys(methods, rule),
    }
    return type(f"Refused{''.join(method.capitalize() for method in methods)}", (base,), members)
