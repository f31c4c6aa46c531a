"""Says which steps were skipped, since their gradients were not finite.

In: the records of steps. Out: a line for the first of several in a row, and a word for progress.
"""

from mgn.training.run.history import History, StepRecord
from mgn.training.run.progress import Progress
from mgn.training.step.loss_scale import LOSS_SCALE, SKIPPED


class Skips:
    """The steps of a run that were skipped."""

    def __init__(self, history: History, show: Progress) -> None:
        self._history, self._show = history, show
        self._in_a_row = 0

    def note(self, record: StepRecord) -> None:
        """Looks at a step. Of several in a row, the first and each tenfold is said."""
        if not record.values.get(SKIPPED):
            self._in_a_row = 0
            return
        self._in_a_row += 1
        row = self._in_a_row
        if row == 1 or (row >= 10 and row == 10 ** (len(str(row)) - 1)):
            scale = record.values.get(LOSS_SCALE)
            reason = "" if scale is None else f"; the loss scale was {scale:g}, and is made smaller"
            several = "" if row == 1 else f", the {row}th in a row"
            self._show.say(
                f"step {record.step}: gradients are not finite: skipped{several}{reason}"
            )

    @property
    def text(self) -> str:
        """How many there were; nothing where there were none."""
        count = self._history.skipped
        return f", {count} skipped" if count else ""
