"""Networks: what the API says of them and does with them."""
