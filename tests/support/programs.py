"""Builds and runs small programs for tests: one operation on arrays, or a module from text."""

from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.parser import Parser

from mgn.dialects.fusion import Fusion
from mgn.dialects.mgn import Mgn
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.interpreter import Interpreter


def context() -> Context:
    """A context with the tensor dialects."""
    result = Context()
    for dialect in (Builtin, Mgn, Fusion):
        result.load_dialect(dialect)
    return result


def parse(text: str) -> ModuleOp:
    """A verified module."""
    module = Parser(context(), text).parse_module()
    module.verify()
    return module


def call(block: Block, name: str, *args: Any, **kwargs: Any) -> tuple[SSAValue, ...]:
    """The results of an operation whose array arguments are constants in front of it."""
    b = Emitter(block.add_op)

    def value(argument: Any) -> Any:
        if isinstance(argument, np.ndarray):
            return b.constant_array(argument)
        if isinstance(argument, list) and any(isinstance(item, np.ndarray) for item in argument):
            return [value(item) for item in argument]
        return argument

    keywords = {key: value(argument) for key, argument in kwargs.items()}
    results = b.call(name, *map(value, args), **keywords)
    return results if isinstance(results, tuple) else (results,)


def evaluate(name: str, *args: Any, wide: bool = False, **kwargs: Any) -> list[np.ndarray]:
    """The results of one operation on arrays, after verifying it."""
    block = Block()
    results = call(block, name, *args, **kwargs)
    for op in block.ops:
        op.verify()
    environment: dict[SSAValue, np.ndarray] = {}
    Interpreter(wide=wide).run_block(block, environment)
    return [environment[value] for value in results]
