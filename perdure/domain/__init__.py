"""The pure rules and types of every loop: no clock, randomness, input or output."""
