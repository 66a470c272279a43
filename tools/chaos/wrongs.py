"""The format of errors at the end of a run."""

from provisioning.doctor.finding import Finding


def wrong(of: str, sentence: str) -> Finding:
    """Return what is wrong with a server, by its id, or with something else."""
    return Finding("error", of if " " in of or not of else f"instance {of}", sentence, check="chaos")
