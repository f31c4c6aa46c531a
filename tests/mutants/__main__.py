"""`python -m tests.mutants`: the rule table, mutated, and which mutants the trials let through.

python -m tests.mutants --count 400 --seed 0
python -m tests.mutants --row scale-scale --verbose
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence

from mgn.passes.saturate.rules.table import BUILT_IN
from tests.mutants.equivalent import reason_of
from tests.mutants.trials import fate_of, sample


def main(arguments: Sequence[str]) -> int:
    """Prints each survivor; 1 where one of them has no reason."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--row", help="mutants of rows with this in their name")
    parser.add_argument("--verbose", action="store_true", help="print the fate of each mutant")
    parser.add_argument("--part", default="0/1", help="i/n: every nth mutant, from i")
    given = parser.parse_args(arguments)
    rows = [rule for rule in BUILT_IN if given.row is None or given.row in rule.name]
    first, step = map(int, given.part.split("/"))
    fates: Counter[tuple[str, str]] = Counter()
    holes = 0
    started = time.process_time()
    for mutant in sample(given.count, given.seed, rows)[first::step]:
        fate = fate_of(mutant)
        fates[mutant.kind, fate] += 1
        if given.verbose:
            print(f"{mutant.name} [{mutant.kind}] {fate}", flush=True)
        if fate == "survives":
            reason = reason_of(mutant.rule, mutant.kind, mutant.what)
            holes += reason is None
            print(f"{mutant.name} [{mutant.kind}] survives: {reason or 'NO REASON'}", flush=True)
    for (kind, fate), count in sorted(fates.items()):
        print(f"{kind:10} {fate:10} {count}")
    print(f"{sum(fates.values())} mutants, {holes} without a reason,", end=" ")
    print(f"{time.process_time() - started:.0f} s")
    return 1 if holes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
