"""Transfer of a volume to another project; the key is shown once."""

from collections.abc import Sequence

from django.http import HttpResponse, QueryDict
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache

from portal.dashboard.copy_as.calls import Call, Secret
from portal.dashboard.copy_as.kinds import storage as copied
from portal.dashboard.frame.forms import Form
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.records.views import SheetPage, name_of
from portal.dashboard.volumes.forms import AcceptForm, TransferForm
from portal.dashboard.volumes.views import HOME, PAGE, VolumePage
from portal.dashboard.words.names import bdi
from provisioning.common.errors import ConflictError
from provisioning.volumes.services.updates import transfers


@method_decorator(never_cache, name="dispatch")
class TransferCreate(SheetPage, VolumePage):
    """The form to offer a volume to another project, whose user accepts it with the transfer's key."""

    rule = "volume:create_transfer"
    submit = "Offer transfer"

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

    def calls(self, form: Form) -> Sequence[Call]:
        typed = form.cleaned_data
        values = {"name": typed["name"], "no_snapshots": not typed["with_snapshots"]}
        return [Call(copied.TRANSFER, {**values, "volume_id": str(self.record.id)})]

    def title(self) -> str:
        return f"Transfer {bdi(name_of(self.record))}"

    def about(self) -> str:
        return "A user of another project accepts the transfer with a key, which is shown once, on the next page."


class TransferWithdraw(QuestionPage, VolumePage):
    """Asks for confirmation, and cancels a transfer."""

    rule = "volume:delete_transfer"
    question = "Cancel the transfer of {name}?"
    consequence = "The key becomes invalid."
    label = "Cancel transfer"
    message = "The transfer of {name} was canceled."
    stays = True

    def do(self) -> None:
        offer = getattr(self.record, "transfer", None)
        if offer is None:
            raise ConflictError(f"{bdi(name_of(self.record))} has no open transfer.")
        transfers.delete_transfer(self.context, str(offer.id))


class TransferAccept(SheetPage):
    """The form to accept a transfer."""

    section = "volumes"
    rule = "volume:accept_transfer"
    back_to = HOME
    heading = "Accept a volume transfer"
    submit = "Accept transfer"

    def form(self, data: QueryDict | None = None) -> Form:
        return AcceptForm(data)

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        transfer = transfers.accept_transfer(self.context, str(typed["transfer_id"]), typed["key"])
        return self.go(PAGE, transfer.volume_id, message="The volume now belongs to this project.")

    def calls(self, form: Form) -> Sequence[Call]:
        values = {"transfer": str(form.cleaned_data["transfer_id"]), "auth_key": Secret("auth_key")}
        return [Call(copied.ACCEPTED_TRANSFER, values)]

    def about(self) -> str:
        return "The owner must create a transfer first and send you its ID and key."
