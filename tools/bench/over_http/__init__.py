"""Measures a cloud over HTTP, a new one or any cloud with the OpenStack APIs: bin/bench http."""
