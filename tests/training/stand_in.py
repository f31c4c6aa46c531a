"""A trainer without a device: a linear model in NumPy, with momentum and noise.

In: batches `x: f32[8, 3]`, `y: f32[8]`. Out: what the loop of a run sees of a real one.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray
INPUTS = {"x": ("f32", (8, 3)), "y": ("f32", (8,))}


class StandIn:
    """Fits `y = x @ w`; each step adds noise that follows from the seed and the step, and takes the
    mean slope of `accumulate` batches.
    """

    loss = "loss"
    inputs = INPUTS
    outputs = ("loss", "prediction")
    division = None

    def __init__(self, seed: int = 0, lr: float = 0.05, accumulate: int = 1) -> None:
        self.seed = seed
        self.accumulate, self.pending = accumulate, 0
        self.sums = np.zeros(4)
        self.lr = lr
        self.steps = 0
        self.params = {"w": np.zeros(3, np.float32)}
        self.velocity = np.zeros(3, np.float32)
        self.batches: list[Mapping[str, Array]] = []

    @property
    def evaluates(self) -> "StandIn":
        """The graph of evaluations, which is that of steps."""
        return self

    @property
    def configuration(self) -> dict[str, Any]:
        """What the steps depend on beside the state."""
        return {"optimizer": f"momentum(lr={self.lr:g})"}

    def step(self, batch: Mapping[str, Array]) -> dict[str, Array]:
        """A step."""
        self.batches.append(batch)
        results = self.run_eval(batch)
        slope = batch["x"].T @ (results["prediction"] - batch["y"]) / len(batch["y"])
        self.sums = self.sums + np.append(slope, results["loss"])
        self.pending += 1
        if self.pending < self.accumulate:
            return results
        *slope, results["loss"] = self.sums / self.accumulate
        self.sums, self.pending = np.zeros(4), 0
        noise = np.random.default_rng((self.seed, self.steps)).standard_normal(3)
        self.velocity = (0.5 * self.velocity + slope + 0.01 * noise).astype(np.float32)
        self.params["w"] = (self.params["w"] - self.lr * self.velocity).astype(np.float32)
        self.steps += 1
        return results

    def run_eval(self, batch: Mapping[str, Array]) -> dict[str, Array]:
        """The loss and the predictions."""
        prediction = batch["x"] @ self.params["w"]
        loss = np.square(prediction - batch["y"]).mean()
        return {"loss": loss.astype(np.float32), "prediction": prediction}

    def state(self) -> dict[str, Array]:
        """All that the next steps depend on."""
        steps = np.array(self.steps, np.int32)
        found = {"w": self.params["w"], "optimizer.w": self.velocity, "optimizer.step": steps}
        if self.accumulate > 1:
            found |= {"optimizer.sums": self.sums, "optimizer.batches": np.array(self.pending)}
        return found

    @property
    def state_types(self) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
        """The type of each array of the state."""
        return {name: (array.dtype, array.shape) for name, array in self.state().items()}

    def load_state(self, state: Mapping[str, Array]) -> None:
        """Takes the place of the state."""
        self.params["w"], self.velocity = state["w"], state["optimizer.w"]
        self.steps = int(state["optimizer.step"])
        if self.accumulate > 1:
            self.sums, self.pending = state["optimizer.sums"], int(state["optimizer.batches"])


def examples(count: int = 60, seed: int = 0) -> dict[str, Array]:
    """Examples of a linear relation; the first column counts them."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((count, 3)).astype(np.float32)
    return {"x": x, "y": x @ np.array([1.0, -2.0, 0.5], np.float32)}


def same_states(one: StandIn, other: StandIn) -> bool:
    """Whether two trainers have the same bits."""
    left, right = one.state(), other.state()
    return left.keys() == right.keys() and all(
        np.array_equal(left[name], right[name]) for name in left
    )
