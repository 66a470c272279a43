"""Sessions of a user."""

from django.utils import timezone

from provisioning.identity.models import SignIn, User


def sign_ins_of(user: User) -> list[SignIn]:
    """Return the valid sessions, the last used first, with project and application credential."""
    found = SignIn.objects.filter(user=user, expires_at__gt=timezone.now())
    if user.tokens_valid_after is not None:
        found = found.filter(last_used_at__gte=user.tokens_valid_after)
    return list(found.select_related("project", "application_credential").order_by("-last_used_at", "id"))
