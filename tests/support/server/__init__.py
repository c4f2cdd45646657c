"""What tests of the server share: a client that speaks bytes."""
