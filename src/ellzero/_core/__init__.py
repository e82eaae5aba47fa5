"""What every room stands on: array libraries, checks of arguments, random streams, interruptions."""
