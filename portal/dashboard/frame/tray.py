"""The tray at the bottom of each page: the user's actions on many resources, and their failures."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from django.urls import reverse

from portal.dashboard.words.plain import SENTENCES, plain
from provisioning.batches import selectors
from provisioning.batches.kinds import KINDS
from provisioning.batches.kinds.declaration import BatchAction
from provisioning.batches.models import Batch, BatchItem
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import read_id

PAGES = {
    "instances": "dashboard:instance",
    "servers": "dashboard:instance",
    "volumes": "dashboard:volume",
    "networks": "dashboard:network",
    "routers": "dashboard:router",
    "floating_ips": "dashboard:floating_ip",
    "security_groups": "dashboard:security_group",
}
"""Kind → the URL name of the page of one resource; other kinds only have a list."""
LISTS = {"servers": "dashboard:instances"}
"""Kind → the URL name of its list, if it has another name than the kind."""
STATES = {
    BatchItem.State.WAITING: "Waiting",
    BatchItem.State.DONE: "Done",
    BatchItem.State.REFUSED: "Not changed",
    BatchItem.State.FAILED: "Failed",
}
_SENTENCES: Mapping[str, str] = {error.__name__: text for error, text in SENTENCES.items()}


def list_of(kind: str) -> str:
    """Return the URL name of the list of a kind."""
    return LISTS.get(kind, f"dashboard:{kind}")


@dataclass(frozen=True)
class Result:
    """One resource of a batch, with its outcome in words."""

    item: BatchItem
    kind: str

    @property
    def word(self) -> str:
        return STATES[BatchItem.State(self.item.state)]

    @property
    def why(self) -> str:
        return _SENTENCES.get(self.item.error) or plain(self.item.reason)

    @property
    def address(self) -> str:
        """The page of the resource, or its list."""
        if self.kind in PAGES and self.item.error != "NotFoundError" and read_id(self.item.resource_id):
            return reverse(PAGES[self.kind], args=[self.item.resource_id])
        return reverse(list_of(self.kind))


@dataclass(frozen=True)
class Row:
    """A batch as the tray shows it, with the results that need attention."""

    batch: Batch
    unsuccessful: list[Result]

    @cached_property
    def action(self) -> BatchAction | None:
        kind = KINDS.get(self.batch.kind)
        return kind.action(self.batch.action) if kind else None

    @property
    def label(self) -> str:
        return self.action.label if self.action else self.batch.action

    @property
    def undo(self) -> bool:
        """Whether the batch can be undone."""
        return self.over and self.batch.done > 0 and bool(self.action and self.action.undone_by)

    @property
    def over(self) -> bool:
        return self.batch.finished_at is not None

    @property
    def ended(self) -> int:
        return self.batch.done + self.batch.unsuccessful

    @property
    def state(self) -> str:
        if not self.over:
            return "running"
        return "refused" if self.batch.unsuccessful else "done"

    @cached_property
    def progress(self) -> str:
        """For example ``198 of 200 instances``."""
        kind = KINDS.get(self.batch.kind)
        total = kind.counted(self.batch.total) if kind else str(self.batch.total)
        return total if self.batch.done == self.batch.total else f"{self.batch.done:,} of {total}"

    @property
    def announcement(self) -> str:
        """The announcement for screen readers at the end."""
        if not self.over:
            return ""
        rest = f" {self.batch.unsuccessful} not changed." if self.batch.unsuccessful else ""
        return f"{self.label}: {self.progress}.{rest}"

    @property
    def more(self) -> int:
        """The number of unsuccessful resources that the tray does not name."""
        return self.batch.unsuccessful - len(self.unsuccessful)


def tray_for(context: RequestContext) -> list[Row]:
    """Return the batches in the caller's tray; without a project or user there are none."""
    if context.project_id is None or context.user_id is None or context.impersonal:
        return []
    return [row_of(each.batch, each.unsuccessful) for each in selectors.in_tray(context)]


def row_of(batch: Batch, unsuccessful: Iterable[BatchItem] = ()) -> Row:
    return Row(batch, [Result(item, batch.kind) for item in unsuccessful])


def results_of(batch: Batch) -> list[Result]:
    """Return all resources of a batch, unsuccessful ones first."""
    return [Result(item, batch.kind) for item in selectors.items_of(batch)]
