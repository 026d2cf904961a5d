"""Options whose values are quantities, such as `--bandwidth 905GB/s`."""

import click

from agent.errors import TurnscopeError
from profiling.quantities import Dimension, QuantityError


class Quantity(click.ParamType[float]):
    """A quantity in its base unit. One that cannot be is a sentence that names the option."""

    def __init__(self, dimension: Dimension, name: str) -> None:
        self.dimension, self.name = dimension, name

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        try:
            return self.dimension.parse(str(value))
        except QuantityError as error:
            option = f"{param.opts[0]}: " if param is not None else ""
            raise TurnscopeError(f"{option}{error}") from None
