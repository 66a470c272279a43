"""What EC2 adds to the cloud's records: its ids, its tags, and which signed requests were used."""
