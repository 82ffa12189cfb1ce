"""What the README says, held against the program."""
