"""Arrangements: one kernel written as several, or with operands that another kernel lays out first.

In: a `fusion.kernel`. Out: the kernels that compute the same. `saturate` prices them beside the one
kernel and chooses; no file here chooses.
"""
