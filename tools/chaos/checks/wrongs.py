"""The format of errors at the end of a run."""

from provisioning.doctor.finding import Finding


def wrong(of: str, sentence: str) -> Finding:
    """Return a finding about a server (``of`` is its id), or about another resource (``of`` is a kind and an id)."""
    return Finding("error", of if " " in of or not of else f"instance {of}", sentence, check="chaos")
