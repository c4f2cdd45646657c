"""What tests of producers and consumers share: brokers told what to answer, a timer moved by hand."""
