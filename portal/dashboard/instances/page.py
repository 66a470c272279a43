"""Bases of the pages of instances: the list, the page of one instance, and its dialogs."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.http import HttpResponse
from django.urls import reverse

from portal.dashboard.frame.pages import Page
from portal.dashboard.instances.actions.begin import masters_locks, refusal
from portal.dashboard.records.views import Crumbs, SheetPage
from portal.dashboard.words.names import bdi
from provisioning.common.context import RequestContext
from provisioning.compute import selectors as compute
from provisioning.compute.actions.registry import actions
from provisioning.compute.models import Instance


class InstancePage(Page):
    """Base of the pages of this panel."""

    section = "instances"
    back_to = "dashboard:instances"
    rule = "os_compute_api:servers:detail"

    def returns_to(self, path: str) -> bool:
        """Return to the list, and to each tab of the page of the instance."""
        identity = self.kwargs.get("instance_id")
        return path == reverse(self.back_to) or (identity is not None and path.startswith(f"/instances/{identity}/"))


class InstanceDialog(InstancePage):
    """Base of the dialogs for one instance; ``{name}`` in the texts stands for its name.

    A dialog for a server action names its ``action``, from which the policy rule and the legal states follow.
    """

    path: ClassVar[str]
    """Last part of the address."""
    label: ClassVar[str]
    """The entry in the menu."""
    icon: ClassVar[str]
    action: ClassVar[str] = ""
    """Key in the registry of server actions."""
    consequence: ClassVar[str] = ""
    danger: ClassVar[bool] = False
    in_menu: ClassVar[bool] = True
    """Whether the action is in the menu of the instance; otherwise it is in a part of the page."""
    instance: Instance

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Take the policy rule from the action."""
        super().__init_subclass__(**kwargs)
        if cls.action and "rule" not in cls.__dict__:
            cls.rule = actions[cls.action].rule

    @classmethod
    def url_name(cls) -> str:
        return f"instance_{cls.action or cls.path}"

    @classmethod
    def why_not(cls, context: RequestContext, instance: Instance, masters: bool) -> str:  # noqa: FBT001 - as in the menu
        """Return the reason why the dialog's action is not possible now, as a sentence; empty if it is possible.

        ``masters``: whether the caller may override locks.
        """
        return refusal(instance, actions[cls.action], masters=masters) if cls.action else ""

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Find the instance, which must be visible to this project. Raises NotFoundError."""
        self.instance = compute.instance_for(self.context, kwargs["instance_id"])
        return {"project_id": str(self.instance.project_id), "user_id": str(self.instance.user_id)}

    def about(self) -> str:
        """Describe the consequence, after the reason why the action cannot begin now."""
        why = self.why_not(self.context, self.instance, masters_locks(self.context))
        return " ".join(filter(None, (why, self.consequence)))

    def back(self) -> str:
        return reverse("dashboard:instance", args=[self.kwargs["instance_id"]])


class InstanceSheet(InstanceDialog, SheetPage):
    """Base of the dialogs with a form; ``message`` is shown after the action has begun."""

    message: ClassVar[str] = ""

    def title(self) -> str:
        return self.heading.format(name=bdi(self.instance.name))

    def extra_context(self) -> Mapping[str, Any]:
        return {**super().extra_context(), "danger": self.danger}

    def crumbs(self) -> Crumbs:
        return [(self.instance.name, self.back())]

    def done(self) -> HttpResponse:
        """Return to the page of the instance, with the message of the dialog."""
        return self.go(self.back(), message=self.message.format(name=bdi(self.instance.name)))
