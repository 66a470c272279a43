"""Handing a volume over to another project: the key is shown once."""

from django.http import HttpResponse, QueryDict
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache

from portal.dashboard.forms import Form
from portal.dashboard.names import bdi
from portal.dashboard.records import QuestionPage, SheetPage, name_of
from portal.dashboard.volumes.forms import AcceptForm, TransferForm
from portal.dashboard.volumes.views import HOME, PAGE, VolumePage
from provisioning.common.errors import ConflictError
from provisioning.volumes.models import Volume
from provisioning.volumes.services import transfers


@method_decorator(never_cache, name="dispatch")
class TransferCreate(SheetPage, VolumePage):
    """The form that offers a volume to whoever has the key."""

    rule = "volume:create_transfer"
    submit = "Offer it"

    def form(self, data: QueryDict | None = None) -> Form:
        return TransferForm(data, initial={"name": self.record.name, "with_snapshots": True})

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        transfer, key = transfers.create_transfer(
            self.context, self.record.id, typed["name"], no_snapshots=not typed["with_snapshots"]
        )
        self.live_page = ""
        return self.page(
            "dashboard/volumes/volumes/key_once.html",
            {"volume": self.record, "transfer": transfer, "key": key, "back": self.back()},
        )

    def words(self) -> str:
        return f"Hand {bdi(name_of(self.record))} over"

    def about(self) -> str:
        return "Somebody of another project takes it over with the key that is shown next, once."


class TransferWithdraw(QuestionPage[Volume], VolumePage):
    """Asks, and offers a volume no longer."""

    rule = "volume:delete_transfer"
    question = "Keep {name}?"
    consequence = "The key that was given out is worth nothing then."
    label = "Keep it"
    said = "{name} is not offered any more."

    def do(self) -> None:
        offer = getattr(self.record, "transfer", None)
        if offer is None:
            raise ConflictError(f"{bdi(name_of(self.record))} is not offered to anybody.")
        transfers.delete_transfer(self.context, str(offer.id))

    def leave_for(self) -> str:
        return self.back()


class TransferAccept(SheetPage):
    """The form for taking a volume over."""

    section = "volumes"
    rule = "volume:accept_transfer"
    back_to = HOME
    heading = "Take a volume over"
    submit = "Take it over"

    def form(self, data: QueryDict | None = None) -> Form:
        return AcceptForm(data)

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        transfer = transfers.accept_transfer(self.context, str(typed["transfer_id"]), typed["key"])
        return self.go(PAGE, transfer.volume_id, said="The volume is this project's now.")

    def about(self) -> str:
        return "The project that has it has to offer it first, and its people tell you both."
