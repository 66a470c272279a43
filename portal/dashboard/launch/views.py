"""The launch wizard: one request opens it, one launches, and each change requests an updated summary."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache

from portal.common.http import rate_limits
from portal.dashboard.copy_as.calls import Call
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import FormPage, Page
from portal.dashboard.launch.copied import calls_of
from portal.dashboard.launch.forms import LaunchForm, NewKeyForm
from portal.dashboard.launch.made_here import created, new_forms
from portal.dashboard.launch.wizard import key_choices, open_wizard
from provisioning.common.errors import NovellaError
from provisioning.compute import selectors as compute
from provisioning.compute.services.key_pairs import create_key_pair
from provisioning.launches import selectors
from provisioning.launches.models import LaunchTemplate
from provisioning.launches.services import templates
from provisioning.launches.services.check import check_plan
from provisioning.launches.services.launch import Launched, launch_plan


class LaunchPage(FormPage):
    """Base of the pages that launch instances."""

    section = "launch"
    rule = "os_compute_api:servers:create"

    def launch(self, form: LaunchForm, source: templates.Source | None = None) -> HttpResponse:
        """Launch the plan of a valid form, and show its instances, or their password once."""
        plan = form.plan()
        rate_limits.check(self.context, rate_limits.LAUNCHES, plan.count)
        launched = launch_plan(self.context, plan, form.key, source=source)
        if launched.password:
            return self._show_password(launched)
        instances = launched.instances
        if len(instances) == 1:
            return self.go("dashboard:instance", instances[0].id)
        return self.go("dashboard:instances", message=f"{len(instances)} instances are being launched.")

    def calls(self, form: Form) -> Sequence[Call]:
        return calls_of(self.context, cast("LaunchForm", form).plan())

    def _show_password(self, launched: Launched) -> HttpResponse:
        """Show the generated password: only this response contains it."""
        instances = launched.instances
        single = len(instances) == 1
        to = reverse("dashboard:instance", args=[instances[0].id]) if single else reverse("dashboard:instances")
        shown = {"instances": instances, "password": launched.password, "to": to}
        answer = self.page("dashboard/launch/password.html", shown)
        answer["Cache-Control"] = "no-store"
        return answer


class Launch(LaunchPage):
    """The wizard's page; its initial values can be launched unchanged."""

    def form(self, data: QueryDict | None = None) -> Form:
        form = LaunchForm(data)
        if again := self.request.GET.get("again", ""):
            form.again = compute.instance_for(self.context, again)
        form.initial["image"] = self.request.GET.get("image", "")
        form.initial["networks"] = self.request.GET.getlist("network")
        volume = self.request.GET.get("volume", "")
        form.initial["boot_from"] = f"volume:{volume}" if volume else ""
        if (edited := self.edited()) and data is None:
            form.fill(templates.plan_in(selectors.version_of(edited)))
        return form

    def save(self, form: Form) -> HttpResponse:
        return self.launch(cast("LaunchForm", form))

    def show(self, form: Form, *, status: int = 200) -> HttpResponse:
        return self.show_wizard(form, status=status)

    def show_wizard(self, form: Form, *, status: int = 200) -> HttpResponse:
        """Show the wizard with this form."""
        wizard = open_wizard(self.context, cast("LaunchForm", form))
        parts = {
            "new_key": NewKeyForm(),
            **new_forms(self.context),
            "edited": self.edited(),
            "writes_templates": self.allows("novella:launch_templates:write"),
            "copies": True,
            "copied": self.copied,
        }
        return self.page("dashboard/launch/page.html", {**wizard.shown(), **parts}, status=status)

    def edited(self) -> LaunchTemplate | None:
        """Return the launch template that gets a new version by this wizard."""
        key = self.request.GET.get("template", "")
        return selectors.own_template_for(self.context, key) if key else None


class Quote(Page):
    """The quota usage of the current choices, and whether they can be launched."""

    rule = "os_compute_api:servers:create"
    counted = ""
    http_method_names = ["post"]

    def form(self, data: QueryDict) -> LaunchForm:
        return LaunchForm(data)

    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        """Return the summary, and the flavors checked against the chosen image and number."""
        form = self.form(request.POST)
        if form.is_valid():
            try:
                rate_limits.check(self.context, rate_limits.DRY_RUNS)
                check_plan(self.context, form.plan())
            except NovellaError as error:
                form.refuse(error)
        form.errors.pop("name", None)  # the name is still being edited
        return self.part("dashboard/launch/_answer.html", open_wizard(self.context, form).shown())


@method_decorator(never_cache, name="dispatch")
class Keys(Page):
    """Creation or import of a key pair within the wizard."""

    rule = "os_compute_api:os-keypairs:create"
    http_method_names = ["post"]

    def post(self, request: HttpRequest) -> HttpResponse:
        """Return the list of keys with the new one selected; only this response contains its private key."""
        new_key, form = NewKeyForm(request.POST), LaunchForm()
        form.initial["key_name"] = request.POST.get("key_name", "")
        if made := created(new_key, self._create):
            new_key = NewKeyForm()
            form.initial["key_name"] = made["new"]
        form.offer("key_name", key_choices(compute.key_pairs_for(self.context)))
        return self.part("dashboard/launch/_keys.html", {"form": form, "new_key": new_key, **(made or {})})

    def _create(self, typed: Mapping[str, Any]) -> dict[str, Any]:
        name, public_key = typed["key_new_name"], typed["key_new_public"] or None
        pair, private_key = create_key_pair(self.context, name, public_key)
        return {"new": pair.name, "private_key": private_key}
