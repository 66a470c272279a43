"""The host's side of Novella: dials the portal and drives the hypervisor; knows no Django, no database and no queue."""
