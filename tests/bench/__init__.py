"""What things cost here, beside what they could cost at best and beside arq: `python -m tests.bench`.

Everything is measured in one run, on one server, with the same client library, since only ratios mean anything on
another machine.
"""
