"""What a client asks of a broker, and the broker that a MessageStore is for the programs of its process."""
