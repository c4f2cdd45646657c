"""What the tests of producers and consumers share: brokers that answer from a script, groups, listeners."""
