"""The values of the examples: a form, meters, a chart, a launch, calls."""

import math
from collections.abc import Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils import timezone

from portal.common.statuses import INSTANCE_STATUS, Status
from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds import storage
from portal.dashboard.frame.forms import MONO, ChoiceLabel, Form, WholeNumberField
from portal.dashboard.graphs import charts
from portal.dashboard.graphs.bars import Bar
from portal.dashboard.graphs.charts import PERCENT
from portal.dashboard.instances.detail import timeline
from provisioning.compute.selectors.history import Step
from provisioning.measures.selectors import DEFAULT, Measures, Series

TYPED = "words=one&size=many&choice=second&several=first&ticked=on"
"""Input of the example form: some fields are right, the others are wrong."""
CHOICES = (
    ("first", ChoiceLabel("The first", "with a line below it", icon="disc")),
    ("second", ChoiceLabel("The second", "chosen", icon="device-hdd", tag="tag")),
)
VOLUME = Call(storage.VOLUME, {"name": "data", "size": 10, "description": "A name with 'quotes' and $signs"})


class ExampleForm(Form):
    """A field with each widget."""

    notes = {"size": "GiB"}
    focuses = False

    words = forms.CharField(label="Text", widget=forms.TextInput({"placeholder": "data"}), help_text="Help below it.")
    size = WholeNumberField(label="Number", min_value=1)
    missing = forms.CharField(label="Missing")
    optional = forms.CharField(label="Optional", required=False)
    secret = forms.CharField(label="Password", required=False, widget=forms.PasswordInput)
    code = forms.CharField(label="Code", required=False, widget=forms.Textarea({"class": MONO, "rows": 2}))
    kind = forms.ChoiceField(label="Select", choices=[("", "Any"), ("a", "Only this")], required=False)
    choice = forms.ChoiceField(label="One of these", choices=CHOICES, widget=forms.RadioSelect)
    several = forms.MultipleChoiceField(
        label="Some of these", choices=CHOICES, required=False, widget=forms.CheckboxSelectMultiple
    )
    ticked = forms.BooleanField(label="A tick", required=False, help_text="Help below it.")


def form_with_errors() -> ExampleForm:
    form = ExampleForm(QueryDict(TYPED))
    form.add_error(None, "An error of the whole form is above its fields.")
    return form


def statuses() -> list[Status]:
    """Return one status of each tone."""
    known = INSTANCE_STATUS
    return [known[name] for name in ("ACTIVE", "BUILD", "VERIFY_RESIZE", "ERROR", "SHUTOFF")]


def meters() -> list[Bar]:
    """Return meters with free capacity, nearly full, over the limit, reserved, and unlimited."""
    return [
        Bar("instances", 10, 3),
        Bar("cores", 10, 9),
        Bar("ram", 1024, 2048),
        Bar("volumes", 10, 2, 3),
        Bar("ports", -1, 7),
    ]


def chart() -> charts.Chart:
    """Return an hour of two lines, with a gap."""
    values = [None if 40 < at < 50 else 50 + 40 * math.sin(at / 12) for at in range(120)]
    half = [None if value is None else value / 2 for value in values]
    series = {"a": Series("a", values, values), "b": Series("b", half, values)}
    start = int(timezone.now().timestamp()) - 120 * 30
    drawn = [charts.Drawn("vCPUs", "a"), charts.Drawn("Host", "b")]
    return charts.chart(Measures(DEFAULT, start, 30, series), "cpu", "Processors", PERCENT, drawn, top=100)


def launch() -> Mapping[str, Any]:
    """Return the context of a launch whose second attempt is running."""
    now = timezone.now()

    def step(name: str, label: str, attempt: int, begin: float, end: float | None, **more: Any) -> Step:
        started, finished = now - timedelta(seconds=begin), now - timedelta(seconds=end) if end is not None else None
        took = begin - end if end is not None else None
        return Step(name, label, attempt, started, finished, took, "Success" if finished else "", **more)

    failed = step("spawn", "Start the guest", 1, 7, 5, message="The host has no memory left.")
    steps = [
        step("schedule", "Choose a host", 1, 8, 7.6),
        Step(
            failed.name,
            failed.label,
            1,
            failed.started,
            failed.finished,
            failed.seconds,
            "Error",
            message=failed.message,
        ),
        step("schedule", "Choose a host", 2, 4, 3.5),
        step("image", "Fetch the image", 2, 3, None),
        Step("start", "Start the guest", 2),
    ]
    instance = SimpleNamespace(launched_at=None, created_at=now - timedelta(seconds=8))
    row = SimpleNamespace(instance=instance, fault=SimpleNamespace(message=""))
    return {"attempts": timeline.attempts(steps), "usual": None, "unfolded": True, "row": row}
