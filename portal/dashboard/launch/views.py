"""The launch wizard: one request opens it, one launches, and each change requests an updated summary."""

from collections.abc import Mapping
from typing import Any, cast

from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache

from portal.common import rate_limits
from portal.dashboard.forms import Form
from portal.dashboard.launch.forms import LaunchForm, NewKeyForm
from portal.dashboard.launch.made_here import new_forms
from portal.dashboard.launch.wizard import key_choices, open_wizard
from portal.dashboard.pages import FormPage, Page
from provisioning.common.errors import NovellaError
from provisioning.compute import selectors as compute
from provisioning.compute.launch.create import check_launch, launch
from provisioning.compute.services.key_pairs import create_key_pair


class Launch(FormPage):
    """The wizard's page; its initial values can be launched unchanged."""

    section = "launch"
    rule = "os_compute_api:servers:create"
    template = "dashboard/launch/page.html"

    def form(self, data: QueryDict | None = None) -> Form:
        form = LaunchForm(data)
        if again := self.request.GET.get("again", ""):
            form.again = compute.instance_for(self.context, again)
        form.initial["image"] = self.request.GET.get("image", "")
        form.initial["networks"] = self.request.GET.getlist("network")
        volume = self.request.GET.get("volume", "")
        form.initial["boot_from"] = f"volume:{volume}" if volume else ""
        return form

    def save(self, form: Form) -> HttpResponse:
        wanted = cast("LaunchForm", form).request()
        rate_limits.check(self.context, rate_limits.LAUNCHES, wanted.max_count)
        instances = launch(self.context, wanted)
        if len(instances) == 1:
            return self.go("dashboard:instance", instances[0].id)
        return self.go("dashboard:instances", said=f"{len(instances)} instances are being launched.")

    def show(self, form: Form, *, status: int = 200) -> HttpResponse:
        wizard = open_wizard(self.context, cast("LaunchForm", form))
        given = {"new_key": NewKeyForm(), **new_forms(self.context)}
        return self.page(self.template, {**wizard.shown(), **given}, status=status)


class Quote(Page):
    """The quota usage of the current choices, and whether they can be launched."""

    rule = "os_compute_api:servers:create"
    counted = ""
    http_method_names = ["post"]

    def post(self, request: HttpRequest) -> HttpResponse:
        """Return the summary, and the flavors checked against the chosen image and number."""
        form = LaunchForm(request.POST)
        if form.is_valid():
            try:
                rate_limits.check(self.context, rate_limits.DRY_RUNS)
                check_launch(self.context, form.request())
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
        new_key, made = NewKeyForm(request.POST), {}
        form = LaunchForm()
        form.initial["key_name"] = request.POST.get("key_name", "")
        if new_key.is_valid():
            try:
                made = self._make(new_key.cleaned_data)
                new_key = NewKeyForm()
                form.initial["key_name"] = made["new"]
            except NovellaError as error:
                new_key.refuse(error)
        form.offer("key_name", key_choices(compute.key_pairs_for(self.context)))
        return self.part("dashboard/launch/_keys.html", {"form": form, "new_key": new_key, **made})

    def _make(self, typed: Mapping[str, Any]) -> dict[str, Any]:
        name, public_key = typed["key_new_name"], typed["key_new_public"] or None
        pair, private_key = create_key_pair(self.context, name, public_key)
        return {"new": pair.name, "private_key": private_key}
