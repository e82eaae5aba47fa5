"""What function values alone tell: their noise, gradients in which few entries matter, models of few coordinates."""
