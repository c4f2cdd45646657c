"""What tests of producers and consumers share: a broker told what to answer, a timer moved by hand."""
