"""Sends every document again after the database was restored from a backup."""

from collections.abc import Iterable

from django.db.models import F
from django.db.models.functions import Coalesce

from provisioning.hosts import commands
from provisioning.hosts.models import HostCommand
from provisioning.hosts.restored import LEAP
from provisioning.network.delivery import sending
from provisioning.network.models import Delivery


def raise_numbers() -> Iterable[str]:
    """Increase the generation of every document, so that each host accepts the version of the records.

    Unfinished commands are withdrawn: a host that has finished one of them since the backup does not report its result
    again. Yields a sentence for the operator.
    """
    rows = Delivery.objects.all()
    many = rows.update(copied=Coalesce("copied", "generation"), generation=F("generation") + LEAP)
    commands.withdraw(HostCommand.objects.filter(subject_kind__in=sending.ORDER))
    rows.exclude(command_id=None).update(command_id=None, digest=sending.UNKNOWN, again=False)
    yield f"Networks, security groups, routers and floating IPs: {many} numbers raised. They are sent to hosts again."
