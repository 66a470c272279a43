"""Search of resources of all kinds by name, id, address and tag."""
