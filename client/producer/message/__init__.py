"""What is done to a message before it is sent: checks, its unique id, its compression, its batch."""
