"""How pages write what Django formats for them."""
