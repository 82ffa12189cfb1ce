"""What the coordinator is about: pure values and rules, without clocks or I/O."""
