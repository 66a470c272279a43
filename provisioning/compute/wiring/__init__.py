"""Functions that other packages call through ``provisioning.wiring``."""
