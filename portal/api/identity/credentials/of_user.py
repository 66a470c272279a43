"""Views of the subresources of a user."""

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rest_framework.request import Request

from portal.api.common.views import ServiceView
from portal.api.identity.dialect import IDENTITY, DetailView, ListView, ResourceView
from portal.api.identity.directory.users import USER
from provisioning.identity.models import User
from provisioning.identity.selectors.lookups import existing
from provisioning.identity.services.application_credentials import refuse_trusts


class OfUserView(ServiceView):
    """A subresource of the user in the path."""

    @property
    def ids(self) -> Mapping[str, str]:
        """The ids in the path by parameter."""
        return dict(self.kwargs)

    @functools.cached_property
    def user(self) -> User:
        """The user. Raises NotFoundError."""
        return existing(User, self.ids["user_id"])

    def policy_target(self) -> dict[str, object]:
        return {"user_id": self.ids["user_id"]}


class NotByTrustView(OfUserView, ResourceView):
    """A subresource of a user that tokens of trusts can neither read nor change."""

    ids = ResourceView.ids

    @property
    def parents(self) -> tuple[Any, ...]:
        return (self.user,)

    def check_rule(self, request: Request) -> None:
        """Check the policy and refuse tokens of trusts."""
        super().check_rule(request)
        refuse_trusts(self.context)


class NotByTrustListView(NotByTrustView, ListView):
    """``/v3/users/{id}/{resources}``."""

    @property
    def address(self) -> str:
        """The path of the list after ``/v3``."""
        return f"{USER.address(self.user)}/{self.resource.path}"


class NotByTrustDetailView(NotByTrustView, DetailView):
    """``/v3/users/{id}/{resources}/{id}``."""


NOT_BY_TRUST = replace(IDENTITY, lists=NotByTrustListView, details=NotByTrustDetailView)
