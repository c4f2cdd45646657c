"""What tests of producers and consumers share: brokers that are told what to answer, a timer moved by hand."""
