"""The only readers of X: products with a matrix of any kind, and its pieces."""
