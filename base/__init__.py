"""What every room may use: pure values and rules, without I/O, clock or randomness, which import nothing of the other rooms."""
