"""The OpenStack APIs; one package per service, siblings do not see each other."""
