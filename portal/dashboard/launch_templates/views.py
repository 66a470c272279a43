"""Launch templates: list, page, creation from the wizard or an instance, versions, and the page of a link."""

import base64
import uuid
from collections.abc import Mapping
from typing import Any, cast

from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.urls import reverse

from portal.common.http import rate_limits
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import FormPage, as_unavailable
from portal.dashboard.launch import names
from portal.dashboard.launch.forms import LaunchForm
from portal.dashboard.launch.views import Launch, LaunchPage, Quote
from portal.dashboard.launch.wizard import SHOWS_USER_DATA, open_wizard
from portal.dashboard.launch_templates.described import describe, describe_version, unused_in
from portal.dashboard.launch_templates.forms import EditForm, LinkForm, TemplateForm, VersionForm, plan_text
from portal.dashboard.launch_templates.listing import READ, TEMPLATES
from portal.dashboard.lists.declaration import HeadLink
from portal.dashboard.lists.views import ListPage
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.records.views import RecordPage, SheetPage
from portal.dashboard.words.names import bdi
from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError
from provisioning.compute import selectors as compute
from provisioning.compute.launch.multipart import own_part
from provisioning.compute.models import Instance
from provisioning.identity import policy
from provisioning.launches import selectors
from provisioning.launches.models import LaunchTemplate, LaunchTemplateVersion
from provisioning.launches.plans.plan import LaunchPlan, read_plan, values_of
from provisioning.launches.services import templates

LIST, DETAIL = "dashboard:launch_templates", "dashboard:launch_template"
WRITE = templates.WRITE


def may_write(context: RequestContext, template: LaunchTemplate) -> bool:
    """Whether the caller may change the template, which is the project's own."""
    own = template.project_id == context.project_id and policy.allows(context, WRITE)
    return own and (not template.public or policy.allows(context, templates.PUBLICIZE))


class TemplatePage(RecordPage[LaunchTemplate]):
    """Base of the pages of one launch template."""

    section = "launch_templates"
    back_to = LIST
    page_name = DETAIL
    rule = WRITE

    def look_up(self, identity: uuid.UUID) -> LaunchTemplate:
        return selectors.own_template_for(self.context, identity)


class TemplateList(ListPage):
    """The launch templates of the project, and the public ones."""

    records = TEMPLATES
    lead = "Prepared launches. The link of each opens a form with the fields that are not locked."

    def offers(self, link: HeadLink) -> bool:
        launches = link is not TEMPLATES.create or self.allows("os_compute_api:servers:create")
        return launches and super().offers(link)


class TemplateDetail(TemplatePage):
    """One launch template, with its versions."""

    rule = READ

    def look_up(self, identity: uuid.UUID) -> LaunchTemplate:
        return selectors.template_for(self.context, identity)

    def get(self, request: HttpRequest, identity: uuid.UUID) -> HttpResponse:
        """Show the default version, or the version with the number in the query's ``version``."""
        number = request.GET.get("version", "")
        if number and not (number.isascii() and number.isdigit() and len(number) < 9):
            raise Http404
        version = selectors.version_of(self.record, int(number) if number else None)
        path = reverse("dashboard:launch_link", args=[self.record.slug])
        context = {
            "record": self.record,
            "version": version,
            "versions": self.record.versions.order_by("-number"),
            "fields": describe_version(self.context, version, templates.plan_in(version)),
            "link": request.build_absolute_uri(path),
            "can_write": may_write(self.context, self.record),
            "can_launch": self.allows("os_compute_api:servers:create"),
        }
        return self.page("dashboard/launch_templates/detail.html", context)


class VersionPage(Launch):
    """Base of the pages that store a plan: the wizard sends its fields first, then this page its own form."""

    section = "launch_templates"
    rule = WRITE
    template = "dashboard/launch_templates/version.html"
    counted = rate_limits.WRITES

    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        """Show the form, filled with the plan of an instance. Without an instance, redirect to the wizard."""
        server = request.GET.get("server", "")
        if not server:
            return self.go(self.wizard_url())
        instance = compute.instance_for(self.context, server)
        return self.show_version(self.version_form(None, _plan_of(self, instance)))

    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        """Show the form for the wizard's plan, or store the plan."""
        if "plan" not in request.POST:
            wizard = LaunchForm(request.POST)
            if not wizard.is_valid():
                return self.show_wizard(wizard, status=422)
            return self.show_version(self.version_form(None, wizard.plan()))
        try:
            plan = read_plan(request.POST["plan"])
        except NovellaError as error:
            raise Http404 from error  # the hidden text was changed
        form = self.version_form(request.POST, plan)
        if form.is_valid():
            try:
                return self.store(form, plan)
            except NovellaError as error:
                form.refuse(error)
            except OperationalError as error:
                form.refuse(as_unavailable(error))
                return self.show_version(form, status=503)
        return self.show_version(form, status=422)

    def wizard_url(self) -> str:
        return reverse("dashboard:launch")

    def version_form(self, data: QueryDict | None, plan: LaunchPlan) -> VersionForm:
        raise NotImplementedError

    def store(self, form: VersionForm, plan: LaunchPlan) -> HttpResponse:
        """Call the service, and redirect."""
        raise NotImplementedError

    def show_version(self, form: VersionForm, *, status: int = 200) -> HttpResponse:
        return self.page(
            "dashboard/launch_templates/version.html", {"form": form, "edited": self.edited()}, status=status
        )

    def edited(self) -> LaunchTemplate | None:
        return None


class TemplateCreate(VersionPage):
    """A new launch template, from the wizard or from an instance."""

    def version_form(self, data: QueryDict | None, plan: LaunchPlan) -> VersionForm:
        fields = describe(self.context, plan, asked=["name"])
        initial = {"plan": plan_text(plan)}
        return TemplateForm(data, fields, publicizes=self.allows(templates.PUBLICIZE), initial=initial)

    def store(self, form: VersionForm, plan: LaunchPlan) -> HttpResponse:
        typed = form.cleaned_data
        made = templates.create_template(
            self.context, typed["title"], typed["slug"], plan, form.modes, public=bool(typed.get("public"))
        )
        return self.go(DETAIL, made.id, message=f"{bdi(made.name)} was created.")


class VersionCreate(VersionPage):
    """A new version of a launch template, which becomes the default one."""

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        self.record = selectors.own_template_for(self.context, kwargs["identity"])
        return {"project_id": self.record.project_id}

    def edited(self) -> LaunchTemplate | None:
        return self.record

    def wizard_url(self) -> str:
        return f"{reverse('dashboard:launch')}?template={self.record.id}"

    def version_form(self, data: QueryDict | None, plan: LaunchPlan) -> VersionForm:
        last = selectors.version_of(self.record)
        fields = describe(self.context, plan, last.locked, last.asked)
        return VersionForm(data, fields, initial={"plan": plan_text(plan)})

    def store(self, form: VersionForm, plan: LaunchPlan) -> HttpResponse:
        made = templates.add_version(self.context, self.record.id, plan, form.modes)
        return self.go(DETAIL, self.record.id, message=f"Version {made.number} is now the default.")


class TemplateEdit(SheetPage, TemplatePage):
    """Edits the name, the link and the visibility; the plan changes only by a new version."""

    edits = True

    def title(self) -> str:
        return f"Edit {bdi(self.record.name)}"

    def form(self, data: QueryDict | None = None) -> Form:
        row = self.record
        initial = {"name": row.name, "slug": row.slug, "public": row.public}
        return EditForm(data, initial, publicizes=self.allows(templates.PUBLICIZE))

    def save(self, form: Form) -> HttpResponse:
        typed = {"public": self.record.public, **form.cleaned_data}
        changed = templates.update_template(self.context, self.record.id, **typed)
        return self.go(DETAIL, changed.id, message=f"{bdi(changed.name)} was updated.")


class TemplateDelete(QuestionPage, TemplatePage):
    """Deletes a launch template with its versions and its link."""

    consequence = "Its link stops working. Instances that were launched with it stay. This cannot be undone."

    def do(self) -> None:
        templates.delete_template(self.context, self.record.id)


class OneVersion(QuestionPage, TemplatePage):
    """Base of the actions on one version."""

    number: int
    stays = True

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        self.number = kwargs["number"]
        result = super().target(**kwargs)
        selectors.version_of(self.record, self.number)
        return result

    def name(self) -> str:
        return f"Version {self.number}"


class VersionDelete(OneVersion):
    """Deletes a version that is not the default."""

    consequence = "This cannot be undone."

    def do(self) -> None:
        templates.delete_version(self.context, self.record.id, self.number)


class VersionDefault(OneVersion):
    """Sets the version that the link uses."""

    question, label, message = "Set {name} as the default?", "Set as default", "{name} is now the default."
    consequence = "The link uses it from now on."

    def do(self) -> None:
        templates.set_default(self.context, self.record.id, self.number)


class _Linked:
    """A launch template found by its link, and the form that it fills."""

    request: HttpRequest
    context: Any
    kwargs: Mapping[str, Any]

    def template_and_version(self) -> tuple[LaunchTemplate, LaunchTemplateVersion]:
        template = selectors.template_with_slug(self.context, self.kwargs["slug"])
        return template, selectors.version_of(template)

    def link_form(self, template: LaunchTemplate, version: LaunchTemplateVersion, data: QueryDict | None) -> LinkForm:
        """Return the form with the values of the template; values in the address replace them."""
        form = LinkForm(data)
        form.correction = f"The launch template locks this value. {self._who_corrects(template)}"
        plan = templates.plan_in(version)
        form.fill(plan, locked=version.locked)
        if names.is_suggestion(plan.name) and "name" not in form.locked:
            form.initial["name"] = names.suggest()  # otherwise all who open the link get the one of its author
        form.asked = version.asked or ["name"]
        for name in ("name", "description", "key_name"):
            if name in self.request.GET and name not in form.locked:
                form.initial[name] = self.request.GET[name]
        return form

    def _who_corrects(self, template: LaunchTemplate) -> str:
        if may_write(self.context, template):
            return "Save a new version of the template with another value."
        if template.public:
            return "Ask an operator to correct the template."
        return "Ask a user of this project who may change launch templates to correct it."


class LaunchLink(_Linked, LaunchPage):
    """The page of a template's link: the asked fields, and one click."""

    template = "dashboard/launch_templates/link.html"

    def form(self, data: QueryDict | None = None) -> Form:
        self.used, self.version = self.template_and_version()
        return self.link_form(self.used, self.version, data)

    def save(self, form: Form) -> HttpResponse:
        return self.launch(cast("LaunchForm", form), templates.source_of(self.used, self.version))

    def show(self, form: Form, *, status: int = 200) -> HttpResponse:
        wizard = open_wizard(self.context, cast("LaunchForm", form))
        shown = wizard.shown()
        plan = templates.plan_in(self.version)
        own = values_of(plan)
        described = describe_version(self.context, self.version, plan)
        locked = [each for each in described if each.mode == "locked" and each.name not in unused_in(plan)]
        context = {
            **shown,
            "used": self.used,
            "version": self.version,
            "fixed": [each for each in locked if each.name in own],
            "unset": [each.label for each in locked if each.name not in own],
        }
        context |= {"copies": self.copies, "copied": self.copied}
        return self.page(self.template, context, status=status)


class LinkQuote(_Linked, Quote):
    """The summary of the page of a link."""

    def form(self, data: QueryDict) -> LaunchForm:
        return self.link_form(*self.template_and_version(), data)


def _plan_of(page: FormPage, instance: Instance) -> LaunchPlan:
    """Return the plan of an existing instance, without user data that the caller may not see."""
    user_data = ""
    own = instance.user_id == page.context.user_id
    if instance.user_data and (own or page.allows(SHOWS_USER_DATA)):
        user_data = base64.b64decode(own_part(instance.user_data)).decode("utf-8", "replace")
    flavor = instance.flavor.get("flavorid", "")
    lease = selectors.lease_of(instance.id)
    return LaunchPlan(
        name=instance.name,
        **{"image": str(instance.image_id or ""), **selectors.choices_of(page.context, instance)},
        lease_days=lease.days if lease else None,
        flavor=flavor,
        networks=tuple(str(each["network_id"]) for each in instance.requested_networks if each.get("network_id")),
        availability_zone=instance.availability_zone,
        user_data=user_data,
        tags=tuple(instance.tags),
        metadata=dict(instance.metadata),
        description=instance.description or "",
        config_drive=instance.config_drive,
    )
