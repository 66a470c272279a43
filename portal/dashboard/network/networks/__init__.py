"""Networks and their subnets: the list, one with its ports, and what is done to them."""
