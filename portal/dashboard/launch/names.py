"""Name suggestions of the wizard: pronounceable and distinct."""

import secrets

FIRST = (
    "amber", "bold", "bright", "calm", "clear", "coral", "crisp", "early", "fair", "fleet", "gentle", "golden", "happy",
    "keen", "kind", "lively", "lucky", "mellow", "merry", "misty", "noble", "pale", "quick", "quiet", "rapid", "sharp",
    "silent", "silver", "steady", "still", "sunny", "swift", "tidy", "vivid", "warm", "wise",
)  # fmt: skip
SECOND = (
    "altair", "aurora", "castor", "comet", "corona", "deneb", "dione", "eclipse", "equinox", "europa", "galaxy",
    "halo", "juno", "luna", "lyra", "meteor", "mimas", "mira", "nebula", "nova", "orbit", "orion", "pallas", "phoebe",
    "polaris", "pollux", "pulsar", "quasar", "rhea", "rigel", "sirius", "spica", "titan", "vega", "vesta",
)  # fmt: skip


def is_suggestion(name: str) -> bool:
    """Whether the name is one of those that ``suggest`` returns."""
    first, _, second = name.partition("-")
    return first in FIRST and second in SECOND


def suggest() -> str:
    """Return a name such as ``quiet-comet``, which is a valid host name."""
    return f"{secrets.choice(FIRST)}-{secrets.choice(SECOND)}"
