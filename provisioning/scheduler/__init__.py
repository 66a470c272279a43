"""Pure Python placement: RequestSpec, HostState, filters, weighers, rank and explain."""
