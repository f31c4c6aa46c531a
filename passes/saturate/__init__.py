"""`saturate`: the e-graph decides every rewrite and every kernel boundary."""
