"""Operations along axes: reductions, norms, losses, scans and order."""
