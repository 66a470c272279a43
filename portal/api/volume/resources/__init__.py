"""The resources of the Block Storage API, except volumes; one module each."""
