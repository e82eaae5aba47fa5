"""One loop for every method, and the parts that it is made of."""
