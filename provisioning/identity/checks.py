"""Django's system checks for identity."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error

from provisioning.identity import policy_file


def check_policy_file(**_: Any) -> list[CheckMessage]:
    """Report all problems of the operator's policy file."""
    path = Path(settings.POLICY_FILE)
    try:
        policy_file.read(path)
    except policy_file.PolicyFileError as error:
        return [Error(problem, obj=str(path), id="novella.policy") for problem in error.problems]
    return []
