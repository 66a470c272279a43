"""Networks and subnets: the list, the detail page with ports, and the actions."""
