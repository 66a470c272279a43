"""The quota editor: the limits of one project, and the default limits."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from django.contrib import messages
from django.forms import BoundField
from django.http import HttpResponse, QueryDict
from django.urls import reverse

from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds.quotas import limit_calls
from portal.dashboard.frame.edits import changes
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import FormPage, Page
from portal.dashboard.graphs import bars
from portal.dashboard.graphs.bars import Bar
from portal.dashboard.quotas.forms import QuotaForm
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.words.names import bdi
from provisioning.common.errors import NotFoundError
from provisioning.identity.models import Project
from provisioning.identity.selectors.lookups import by_id
from provisioning.quotas import selectors
from provisioning.quotas.limits import DEFAULTS, NETWORK, PER_TYPE, UNLIMITED, VOLUME, delivered, is_per_type
from provisioning.quotas.services.limits import reset_limits, set_limits
from provisioning.volumes.selectors.offers import type_names

OTHER_RULES = (("update_quota", NETWORK), ("volume_extension:quotas:update", VOLUME))
"""Policy rules for the limits of services other than Compute; the limits of volume types have the rule of volumes."""
Groups = Mapping[str, list[Bar]]


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One resource in the editor: usage, and the fields for its limit."""

    bar: Bar
    how: BoundField
    limit: BoundField


class QuotaPage(FormPage):
    """Base of the two editors."""

    edits = True
    section = "projects"

    def groups(self) -> Groups:
        """Return the resources that can be set, with their usage, by group title."""
        raise NotImplementedError

    def show(self, form: Form, *, status: int = 200) -> HttpResponse:
        rows = {
            title: [QuotaRow(bar, form[f"how-{bar.resource}"], form[f"limit-{bar.resource}"]) for bar in group]
            for title, group in self.groups().items()
        }
        return self.page(self.template, {**self.form_context(form), "groups": rows}, status=status)

    def default_limits(self) -> Mapping[str, int]:
        """Return the limits of the choice *Default*."""
        raise NotImplementedError

    def calls_for(self, form: Form, project: str) -> Sequence[Call]:
        """Return the calls that set the changed limits of a project, or the defaults."""
        changed, typed = changes(form), form.cleaned_data
        limits = {
            name: limit
            for name, limit in cast("QuotaForm", form).limits().items()
            if f"how-{name}" in changed or (f"limit-{name}" in changed and typed[f"how-{name}"] == "limit")
        }
        defaults = self.default_limits()
        numbers = {name: defaults.get(name, UNLIMITED) if limit is None else limit for name, limit in limits.items()}
        calls, left = limit_calls(project, numbers)
        restored = [bars.label_of(name) for name, limit in limits.items() if limit is None and name not in left]
        notes = []
        if restored:
            notes.append(
                f"No API call removes a limit, so the default becomes the project's own limit: {', '.join(restored)}."
            )
        if left:
            notes.append(f"No call sets: {', '.join(map(bars.label_of, left))}.")
        return [replace(call, notes=notes) for call in calls[:1]] + calls[1:]


class OneProjectPage(Page):
    """Base of the pages of one project's limits."""

    section = "projects"
    _project: Project | None = None

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Find the project and return its policy target. The policy is checked before a missing project is reported, so
        that only callers whom the rule allows learn that it is missing.
        """
        self._project = by_id(Project, kwargs["project_id"])
        return {"project_id": self._project.id, "domain_id": self._project.domain_id} if self._project else {}

    @property
    def project(self) -> Project:
        """The project. Raises NotFoundError if it does not exist."""
        if self._project is None:
            raise NotFoundError("There is no such project.")
        return self._project


class ProjectQuotas(QuotaPage, OneProjectPage):
    """The limits of one project."""

    rule = "os_compute_api:os-quota-sets:update"
    template = "dashboard/quotas/project.html"

    def groups(self) -> Groups:
        """Return the groups, without the limits of networking and of volumes if their policy rules forbid the caller to
        set them.
        """
        closed = {
            name
            for rule, names in OTHER_RULES
            if not self.allows(rule, {"project_id": self.project.id})
            for name in names
        }
        result = bars.grouped(selectors.whole_detail_of(self.project.id, of_types()))
        return {title: group for title, group in result.items() if _kind(group[0].resource) not in closed}

    def form(self, data: QueryDict | None = None) -> Form:
        types = of_types()
        own, defaults = selectors.own_limits(self.project.id, types), selectors.default_limits(types)
        resources = [bar.resource for group in self.groups().values() for bar in group]
        return QuotaForm(data, resources, own=own, defaults=defaults, default_label="Default")

    def save(self, form: Form) -> HttpResponse:
        """Set the limits. A limit below the usage is accepted with a warning."""
        project = self.project
        set_limits(project.id, cast("QuotaForm", form).limits(), force=True)
        for sentence in below_usage(project.id):
            messages.warning(self.request, sentence)
        return self.go("dashboard:project_page", project.id, message=f"The quotas of {bdi(project.name)} were saved.")

    def default_limits(self) -> Mapping[str, int]:
        return selectors.default_limits(of_types())

    def calls(self, form: Form) -> Sequence[Call]:
        return self.calls_for(form, self.project.id.hex)

    def extra_context(self) -> Mapping[str, Any]:
        project = self.project
        return {
            "project": project,
            "can_reset": self.allows("os_compute_api:os-quota-sets:delete", {"project_id": project.id}),
        }


class ProjectQuotasReset(QuestionPage, OneProjectPage):
    """Asks for confirmation, and resets a project's limits to the defaults."""

    rule = "os_compute_api:os-quota-sets:delete"
    question = "Give {name} the default quotas?"
    consequence = "All its own limits are removed. Resources in use are kept, even if they exceed the defaults."
    label = "Use the defaults"
    message = "{name} now has the default quotas."
    danger = False

    def name(self) -> str:
        return self.project.name

    def do(self) -> None:
        """Delete the project's own limits of the services that the policy allows."""
        project = self.project
        network_too = self.allows("delete_quota", {"project_id": project.id})
        volumes_too = self.allows("volume_extension:quotas:delete", {"project_id": project.id})
        closed = {*(() if network_too else NETWORK), *(() if volumes_too else VOLUME)}
        mine = [name for name in [*DEFAULTS, *of_types()] if _kind(name) not in closed]
        reset_limits(project.id, mine)
        for sentence in below_usage(project.id):
            messages.warning(self.request, sentence)

    def back(self) -> str:
        return reverse("dashboard:project_quotas", args=[self.project.id])

    def success_url(self) -> str:
        return reverse("dashboard:project_page", args=[self.project.id])


class QuotaDefaults(QuotaPage):
    """The default limits."""

    rule = "os_compute_api:os-quota-class-sets:update"
    template = "dashboard/quotas/defaults.html"

    def groups(self) -> Groups:
        return bars.grouped(
            {name: (limit, 0, 0) for name, limit in _with_types(selectors.default_limits(of_types())).items()}
        )

    def form(self, data: QueryDict | None = None) -> Form:
        types = of_types()
        own = selectors.own_limits(None, types)
        return QuotaForm(data, [*DEFAULTS, *types], own=own, defaults=delivered(), default_label="Built-in")

    def default_limits(self) -> Mapping[str, int]:
        return delivered()

    def calls(self, form: Form) -> Sequence[Call]:
        return self.calls_for(form, "")

    def save(self, form: Form) -> HttpResponse:
        set_limits(None, cast("QuotaForm", form).limits())
        return self.go("dashboard:projects", message="The default quotas were saved.")


def of_types() -> list[str]:
    """Return the names of the limits of volume types."""
    return [f"{kind}{name}" for name in type_names() for kind in PER_TYPE]


def _with_types(limits: Mapping[str, int]) -> dict[str, int]:
    return dict(limits) | {name: UNLIMITED for name in of_types() if name not in limits}


def _kind(resource: str) -> str:
    """Return ``volumes`` for a resource of a volume type, and any other resource unchanged."""
    return "volumes" if resource not in DEFAULTS and is_per_type(resource) else resource


def below_usage(project_id: uuid.UUID) -> list[str]:
    """Return a message for each resource whose usage exceeds the limit."""
    return [
        f"{bar.label}: {bar.used_text} in use with a limit of {bar.limit_text}. Nothing is deleted, and nothing new"
        " can be created until the usage is lower."
        for group in bars.grouped(selectors.whole_detail_of(project_id)).values()
        for bar in group
        if bar.over and not bar.each
    ]
