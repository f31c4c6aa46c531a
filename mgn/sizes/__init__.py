"""A dimension with a range of sizes: a few compiled programs that run all of them."""
