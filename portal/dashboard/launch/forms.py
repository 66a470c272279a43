"""Conversion of the wizard's fields into a LaunchPlan and back, and of service errors into field errors."""

import uuid
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from django import forms
from django.conf import settings
from django.forms import ValidationError
from django.http import QueryDict

from portal.dashboard.frame.forms import (
    MONO,
    ChoiceLabel,
    Form,
    OfferedField,
    OfferedListField,
    WholeNumberField,
    metadata_of,
)
from portal.dashboard.launch import names
from portal.dashboard.launch.disks import DiskRowsField
from portal.dashboard.records import refusals
from provisioning.common.errors import InvalidInputError, NovellaError, OverQuotaError
from provisioning.compute.launch.guest_data import MAX_USER_DATA
from provisioning.compute.models import Instance
from provisioning.launches.cloud_config import check
from provisioning.launches.plans.plan import FIELD_OF, FIELDS, LaunchPlan, choices_of

FAR_TOO_MANY = 9999
"""A larger number of servers is rejected, and the summary is shown for this number."""
ADVANCED = {
    "count", "networks", "security_groups", "availability_zone", "server_group", "user_data", "snippets", "tags",
    "metadata", "description",
}  # fmt: skip
DATA = {"disks", "delete_disks"}
END = {"lease_days"}
LEASES = (1, 3, 7, 14, 30, 90, 180)
"""Lengths of leases that the wizard offers, in days."""
NO_NETWORK = "none"
BOOT_FIELDS = {"boot_from", "on_volume", "volume_size", "delete_volume"}
"""Fields of the boot disk."""


def new_key() -> str:
    """Return an idempotency key for a newly opened wizard."""
    return uuid.uuid4().hex


class LaunchForm(Form):
    """The fields of a launch; the launch service checks the choices."""

    service_fields = FIELD_OF
    notes = {
        "tags": "separated by commas",
        "user_data": "a cloud-init file or a script that runs at the first boot",
        "metadata": "one key=value a line",
        "description": "for people",
        "volume_size": "GiB",
        "config_drive": "also provide metadata on a labelled disk, for images that need it",
    }

    idempotency_key = forms.CharField(required=False, initial=new_key, widget=forms.HiddenInput)
    name = forms.CharField(max_length=255, initial=names.suggest)
    image = OfferedField(error_messages={"required": "Choose an image."})
    boot_from = OfferedField(label="Source", required=False, widget=forms.Select)
    on_volume = forms.BooleanField(
        label="On a new volume",
        required=False,
        help_text="Its root disk is a volume created from the image. It can be snapshotted, backed up and kept.",
    )
    volume_size = WholeNumberField(label="Size of the volume", required=False, min_value=1, initial=10)
    delete_volume = forms.BooleanField(
        label="Delete the volume with the instance", required=False, help_text="Otherwise the volume is kept."
    )
    flavor = OfferedField(label="Size", error_messages={"required": "Choose a size."})
    key_name = OfferedField(label="SSH key", required=False)
    count = WholeNumberField(
        label="Number of instances", min_value=1, initial=1, widget=forms.NumberInput({"max": 100})
    )
    availability_zone = OfferedField(label="Availability zone", required=False, widget=forms.Select)
    server_group = OfferedField(label="Server group", required=False, widget=forms.Select)
    networks = OfferedListField(required=False)
    security_groups = OfferedListField(label="Security groups", required=False)
    password = forms.BooleanField(
        label="Without a key, set a password",
        required=False,
        initial=True,
        help_text="It is shown once after the launch. The console accepts it; SSH, if the image does.",
    )
    reachable = forms.BooleanField(
        label="Reachable from the internet",
        required=False,
        help_text="Each instance gets a floating IP, which is deleted with it.",
    )
    openings = OfferedListField(label="Allow from anywhere", required=False, initial=["ssh"])
    disks = DiskRowsField(
        label="Data disks",
        required=False,
        template_name="dashboard/launch/_disks.html",
        help_text="A new volume for each row. With a directory, it is formatted and mounted there at the first boot.",
    )
    delete_disks = forms.BooleanField(
        label="Delete these disks with the instance", required=False, help_text="Otherwise they are kept as volumes."
    )
    lease_days = OfferedField(label="Delete the instance", required=False, widget=forms.Select)
    snippets = OfferedListField(
        label="Snippets", required=False, help_text="They are added to the user data, and cloud-init runs them."
    )
    user_data = forms.CharField(
        label="User data",
        required=False,
        strip=False,
        widget=forms.Textarea({"class": MONO, "rows": 5, "placeholder": "#!/bin/sh"}),
    )
    user_data_as_is = forms.BooleanField(
        label="Launch with this user data as it is", required=False, help_text="The guest will probably ignore it."
    )
    tags = forms.CharField(required=False, widget=forms.TextInput({"placeholder": "web, staging"}))
    metadata = forms.CharField(
        required=False, widget=forms.Textarea({"class": MONO, "rows": 2, "placeholder": "role=web"})
    )
    description = forms.CharField(max_length=255, required=False)
    config_drive = forms.BooleanField(label="Config drive", required=False)

    def __init__(self, data: QueryDict | None = None) -> None:
        if data is not None and "count" not in data:  # scripts that send the wizard's fields may omit it
            data = data.copy()
            data["count"] = "1"
        super().__init__(data)
        self.over_quota = ""
        self.again: Instance | None = None  # the instance whose launch is repeated
        self.copied = False  # whether ``initial`` comes from a plan
        self.locked: frozenset[str] = frozenset()  # fields that have the value of the plan
        self.offer("openings", OPENINGS)
        self.offer("lease_days", lease_choices())

    @property
    def number(self) -> int:
        """The number of servers; 1 while the field is invalid."""
        typed = self.cleaned_data.get("count") if self.is_bound and not self.has_error("count") else None
        return min(typed or 1, FAR_TOO_MANY)

    @property
    def notices(self) -> list[tuple[str, str]]:
        """Error messages with the fields that they concern."""
        result = [(field, self._named(field, str(errors[0]))) for field, errors in self.errors.items()]
        return [*result, *([("quota", self.over_quota)] if self.over_quota else [])]

    def _named(self, field: str, error: str) -> str:
        """Prefix an error with the label of its field, for errors that are shown away from it."""
        return f"{self[field].label}: {error}" if field in self.fields else error

    def replace_error(self, field: str, sentence: str) -> None:
        """Replace the errors of a field by one message, also in an unbound form."""
        self.errors.pop(field, None)
        self.cleaned_data = getattr(self, "cleaned_data", {})
        self.add_error(field, sentence)

    def clean(self) -> dict[str, Any]:
        """Accept a form without an image if the server boots from a volume or snapshot, and require a size for a new
        volume.
        """
        typed = super().clean() or self.cleaned_data
        if typed.get("boot_from"):
            self.errors.pop("image", None)
            typed.setdefault("image", "")
        elif typed.get("on_volume") and not typed.get("volume_size") and "volume_size" not in self.errors:
            self.add_error("volume_size", "Enter the size of the volume.")
        return typed

    def clean_user_data(self) -> str:
        """Reject a malformed ``#cloud-config``, unless the user confirms that it is used unchanged.

        cloud-init ignores a malformed ``#cloud-config`` completely, and the guest would have no key.
        """
        text: str = self.cleaned_data["user_data"].replace("\r\n", "\n")
        as_is = bool(self.data.get("user_data_as_is"))
        if not as_is and (problem := check.problem_of(text)):
            raise ValidationError(
                problem if "user_data" in self.locked else f"{problem} Correct it, or launch with it as it is."
            )
        return text

    def clean_lease_days(self) -> int | None:
        return read_days(self.cleaned_data["lease_days"])

    def clean_tags(self) -> tuple[str, ...]:
        tags = (tag.strip() for tag in self.cleaned_data["tags"].split(","))
        return tuple(dict.fromkeys(filter(None, tags)))

    def clean_metadata(self) -> dict[str, str]:
        return metadata_of(self.cleaned_data["metadata"])

    def plan(self) -> LaunchPlan:
        """Return the choices of a valid form."""
        typed: dict[str, Any] = self.cleaned_data
        same = {name: typed[name] for name in FIELDS if name not in _CONVERTED}
        return LaunchPlan(
            **same,
            count=self.number,
            networks=tuple(each for each in typed["networks"] if each != NO_NETWORK),
            security_groups=tuple(typed["security_groups"]),
            openings=tuple(each for each in typed["openings"] if each in _OPENINGS) if typed["reachable"] else (),
            snippets=tuple(typed["snippets"]),
        )

    def fill(self, plan: LaunchPlan, *, locked: Collection[str] = ()) -> None:
        """Set the initial values to the choices of a plan; the wizard chooses values that the plan does not have.
        ``locked`` fields always have the value of the plan, even if another value is submitted.
        """
        self.copied = True
        self.locked = frozenset(locked)
        chosen = {name for name in FIELDS if name not in _WIZARD_CHOOSES or getattr(plan, name)}
        self.initial.update(initial_of(plan, chosen | {*locked} | ({"openings"} if plan.reachable else set())))
        for name in locked:
            self.fields[name].disabled = True

    @property
    def key(self) -> str:
        return str(self.cleaned_data["idempotency_key"])[:64] or new_key()

    def refuse(self, error: NovellaError) -> None:
        """Show exceeded quotas next to the meters, and other errors at their fields. An error that several fields cause
        together is shown at one that can be changed.
        """
        if isinstance(error, OverQuotaError) and error.resource in {"instances", "cores", "ram"}:
            self.over_quota = refusals.message_of(error)
        elif error.field == "user_data" and isinstance(error, InvalidInputError):
            size = len(self.cleaned_data["user_data"].encode())
            self.add_error("user_data", f"It has {size} bytes. At most {MAX_USER_DATA * 3 // 4} fit.")
        elif isinstance(error, OverQuotaError) and error.resource == "floatingips":
            self.add_error("reachable", refusals.message_of(error))
        elif isinstance(error, OverQuotaError) and error.resource in {"volumes", "gigabytes"}:
            self.add_error("disks", refusals.message_of(error))
        elif isinstance(error, OverQuotaError) and error.resource == "metadata_items":
            self.add_error("metadata", refusals.message_of(error))
        else:
            open_first = sorted(choices_of(error), key=lambda name: name in self.locked)
            name = next((name for name in open_first if name in self.fields), None)
            self.add_error(name, self.message_of(error))


_WIZARD_CHOOSES = frozenset(
    {"name", "image", "flavor", "key_name", "networks", "security_groups", "openings", "volume_size"}
)
"""Fields whose empty value in a plan means the default of the wizard."""
_CONVERTED = frozenset({"count", "networks", "security_groups", "openings", "snippets"})
OPENINGS = (
    ("ssh", ChoiceLabel("SSH", "TCP 22")),
    ("web", ChoiceLabel("Web", "TCP 80 and 443")),
)
_OPENINGS = frozenset(key for key, _ in OPENINGS)


def initial_of(plan: LaunchPlan, names: Iterable[str]) -> dict[str, Any]:
    """Return the values of a plan's fields as the form shows them."""
    shown: Mapping[str, Any] = {
        "tags": ", ".join(plan.tags),
        "metadata": "\n".join(f"{key}={value}" for key, value in plan.metadata.items()),
        "lease_days": str(plan.lease_days or ""),
        **{name: list(getattr(plan, name)) for name in ("networks", "security_groups", "openings", "snippets")},
    }
    return {name: shown.get(name, getattr(plan, name)) for name in names}


def lease_choices(days: int | None = None) -> list[tuple[str, str]]:
    """Return the offered lengths of leases, with ``days`` among them."""
    offered = {each for each in LEASES if each <= settings.LEASE_MAX_DAYS} | {days or settings.LEASE_MAX_DAYS}
    return [("", "Never"), *((str(each), f"After {each} day{'s' * (each > 1)}") for each in sorted(offered))]


def read_days(text: str) -> int | None:
    """Return the days of a lease; None for none. Raises ValidationError."""
    if text and not (text.isascii() and text.isdigit() and len(text) < 5):
        raise ValidationError("Choose one of the offered times.")
    return int(text) if text else None


class NewKeyForm(Form):
    """Creation or import of a key pair within the wizard."""

    service_fields = {"name": "key_new_name", "public_key": "key_new_public"}
    notes = {"key_new_public": "to import an existing key; leave empty to create a new pair"}
    focuses = False

    key_new_name = forms.CharField(
        label="Name", max_length=255, widget=forms.TextInput({"form": "new-key-form", "placeholder": "laptop"})
    )
    key_new_public = forms.CharField(
        label="Public key",
        required=False,
        widget=forms.Textarea(
            {"form": "new-key-form", "class": MONO, "rows": 2, "placeholder": "ssh-ed25519 AAAA… you@laptop"}
        ),
    )
