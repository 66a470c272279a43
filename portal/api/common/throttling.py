"""Rate limits as a throttle of Django REST framework."""

from typing import cast

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from portal.common.http import rate_limits
from provisioning.common.context import RequestContext

READING = frozenset({"GET", "HEAD", "OPTIONS"})


class RateThrottle(BaseThrottle):
    """Counts requests that change something, as the view's ``counted`` kind; requests without a token are counted at
    sign-in.
    """

    def __init__(self) -> None:
        self._wait = 0

    def allow_request(self, request: Request, view: APIView) -> bool:
        context, kind = cast("RequestContext | None", request.auth), getattr(view, "counted", "")
        if request.method in READING or context is None or not kind:
            return True
        self._wait = rate_limits.seconds_to_wait(context, kind)
        return not self._wait

    def wait(self) -> float:
        return self._wait
