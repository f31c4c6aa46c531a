"""The name of the state that random numbers come from, for those that know no dialect."""

RANDOM_STATE = "mgn.random"
"""The state of random numbers: the two words of the seed, and the number of the run."""
