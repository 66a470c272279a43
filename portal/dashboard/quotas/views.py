"""The quota editor: the limits of one project, and those of projects without their own."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse

from portal.dashboard.forms import whole_number
from portal.dashboard.pages import Page
from portal.dashboard.quotas import bars
from portal.dashboard.quotas.bars import Bar
from provisioning.common.errors import InvalidInputError, NotFoundError, NovellaError
from provisioning.identity import selectors as identity
from provisioning.identity.models import Project
from provisioning.quotas import selectors, services
from provisioning.quotas.limits import DEFAULTS, NETWORK, UNLIMITED


@dataclass(frozen=True, slots=True)
class Line:
    """One resource in the editor: ``how`` is ``default``, ``limit`` or ``unlimited``; ``typed`` what stands there."""

    bar: Bar
    how: str
    typed: str
    default: str
    error: str = ""


class ProjectQuotas(Page):
    """The limits of one project."""

    section = "projects"
    rule = "compute:quotas:update"
    _project: Project | None = None

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Find the project; where there is none the rule is asked first, so that only who may look learns it."""
        self._project = identity.project_by(project_id=str(kwargs["project_id"]))
        return {"project_id": self._project.id, "domain_id": self._project.domain_id} if self._project else {}

    def get(self, request: HttpRequest, project_id: uuid.UUID) -> HttpResponse:
        """Show all limits with usage."""
        return self._form(self.project)

    def post(self, request: HttpRequest, project_id: uuid.UUID) -> HttpResponse:
        """Set them all; limits below usage are taken, and said."""
        project = self.project
        try:
            limits = {name: limit for name, limit in limits_of(request.POST).items() if self._may_set(project, name)}
            services.set_limits(project.id, limits, force=True)
        except NovellaError as error:
            return self._form(project, request.POST, error, status=422)
        for sentence in below_usage(project.id):
            messages.warning(request, sentence)
        return self.go("dashboard:project_page", project.id, said=f"The quotas of {project.name} are saved.")

    @property
    def project(self) -> Project:
        """The project; NotFoundError without one."""
        if self._project is None:
            raise NotFoundError("There is no such project.")
        return self._project

    def _may_set(self, project: Project, resource: str) -> bool:
        """Whether policy lets the caller set this one: limits of the network have a rule of their own."""
        return resource not in NETWORK or self.allows("network:quotas:update", {"project_id": project.id})

    def _form(
        self, project: Project, data: QueryDict | None = None, error: NovellaError | None = None, *, status: int = 200
    ) -> HttpResponse:
        defaults = selectors.default_limits()
        found = bars.grouped(selectors.detail_of(project.id))
        own = selectors.own_limits(project.id)
        groups = {
            title: [_line(bar, own, defaults, data, error) for bar in group]
            for title, group in found.items()
            if self._may_set(project, group[0].resource)
        }
        context = {
            "project": project,
            "groups": groups,
            "form_error": _of_no_field(error),
            "can_reset": self.allows("compute:quotas:delete", {"project_id": project.id}),
        }
        return self.page("dashboard/quotas/project.html", context, status=status)


class ProjectQuotasReset(ProjectQuotas):
    """The default limits again."""

    rule = "compute:quotas:delete"

    def get(self, request: HttpRequest, project_id: uuid.UUID) -> HttpResponse:
        """Ask."""
        return self.ask(
            {
                "title": f"Give {self.project.name} the default quotas?",
                "text": "All limits of its own are dropped. What is in use stays, even where it is more.",
                "action": reverse("dashboard:project_quotas_reset", args=[self.project.id]),
                "label": "Use the defaults",
                "danger": False,
                "back": reverse("dashboard:project_quotas", args=[self.project.id]),
            }
        )

    def post(self, request: HttpRequest, project_id: uuid.UUID) -> HttpResponse:
        """Drop the project's own limits."""
        project = self.project
        network_too = self.allows("network:quotas:delete", {"project_id": project.id})
        mine = [name for name in DEFAULTS if network_too or name not in NETWORK]
        services.reset_limits(project.id, mine)
        for sentence in below_usage(project.id):
            messages.warning(request, sentence)
        return self.go("dashboard:project_page", project.id, said=f"{project.name} has the default quotas again.")


class QuotaDefaults(Page):
    """The limits of projects that have none of their own."""

    section = "projects"
    rule = "compute:quota_classes:update"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show them."""
        return self._form()

    def post(self, request: HttpRequest) -> HttpResponse:
        """Set them for all projects without their own."""
        try:
            services.set_limits(None, limits_of(request.POST))
        except NovellaError as error:
            return self._form(request.POST, error, status=422)
        return self.go("dashboard:projects", said="The default quotas are saved.")

    def _form(
        self, data: QueryDict | None = None, error: NovellaError | None = None, *, status: int = 200
    ) -> HttpResponse:
        own = selectors.own_limits(None)
        found = bars.grouped({name: (limit, 0, 0) for name, limit in selectors.default_limits().items()})
        groups = {title: [_line(bar, own, DEFAULTS, data, error) for bar in group] for title, group in found.items()}
        context = {"groups": groups, "form_error": _of_no_field(error)}
        return self.page("dashboard/quotas/defaults.html", context, status=status)


def limits_of(data: QueryDict) -> dict[str, int | None]:
    """Read the editor: resource → limit, None for the default; what the form does not name is left as it is.

    InvalidInputError names the resource.
    """
    limits: dict[str, int | None] = {}
    for resource in DEFAULTS:
        how = data.get(f"how-{resource}")
        if how == "default":
            limits[resource] = None
        elif how == "unlimited":
            limits[resource] = UNLIMITED
        elif how == "limit":
            limits[resource] = whole_number(
                data.get(f"limit-{resource}", ""), f"The limit of {bars.label_of(resource)}", field=resource
            )
        elif how is not None:
            raise InvalidInputError("Choose the default, a limit, or no limit.", field=resource)
    return limits


def below_usage(project_id: uuid.UUID) -> list[str]:
    """Return a sentence for each resource of which the project uses more than it may."""
    return [
        f"{bar.label}: {bar.used_text} in use with a limit of {bar.limit_text}. Nothing is taken away, and no more can"
        " be made until less is used."
        for group in bars.grouped(selectors.detail_of(project_id)).values()
        for bar in group
        if bar.over and not bar.each
    ]


def _line(
    bar: Bar, own: Mapping[str, int], defaults: Mapping[str, int], data: QueryDict | None, error: NovellaError | None
) -> Line:
    name = bar.resource
    limit = own.get(name)
    how = "default" if limit is None else "unlimited" if limit == UNLIMITED else "limit"
    typed = "" if limit is None or limit == UNLIMITED else str(limit)
    if data is not None:
        how, typed = data.get(f"how-{name}", how), data.get(f"limit-{name}", typed)
    default = defaults[name]
    written = "no limit" if default == UNLIMITED else bars.amount(name, default)
    return Line(bar, how, typed or (str(default) if default >= 0 else ""), written, _said(error, name))


def _said(error: NovellaError | None, resource: str) -> str:
    return error.message if error is not None and error.field == resource else ""


def _of_no_field(error: NovellaError | None) -> str:
    return error.message if error is not None and error.field not in DEFAULTS else ""
