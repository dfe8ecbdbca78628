"""What a tree of runs cost, at the prices of the library genai-prices."""

import threading
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.events import Event, ModelAnswered


class CostMeter:
    """An observer that adds up what the model calls it is told of cost, in US dollars.

        meter = CostMeter()
        result = await agent.run("…", observers=(meter,))
        print(meter.total, meter.unpriced)

    ``by_model`` is the sum for each model that was priced. ``unpriced`` counts, by model, the calls that no price is
    known for: of a model or provider that genai-prices does not know or that the model's reply did not name (``""``),
    without counted tokens, or ended without a reply. These are never guessed, so ``total`` is all there is to pay
    only while ``unpriced`` is empty. Input is priced as not cached. May watch any number of runs, in any thread.
    Raises ConfigurationError if the package genai-prices is missing.
    """

    def __init__(self) -> None:
        self._price = _prices()
        self._lock = threading.Lock()
        self._by_model: dict[str, Decimal] = {}
        self._unpriced: Counter[str] = Counter()

    def __call__(self, event: Event) -> None:
        """Count the event if it is the end of a model call."""
        if not isinstance(event, ModelAnswered):
            return
        spent = event.usage
        known = event.model and (spent.input_tokens or spent.output_tokens)
        price = self._price(event.model, spent.input_tokens, spent.output_tokens) if known else None
        with self._lock:
            if price is None:
                self._unpriced[event.model] += 1
            else:
                self._by_model[event.model] = self._by_model.get(event.model, Decimal(0)) + price

    @property
    def by_model(self) -> dict[str, Decimal]:
        """What each priced model cost."""
        with self._lock:
            return dict(self._by_model)

    @property
    def unpriced(self) -> dict[str, int]:
        """How many calls of each model have no price."""
        with self._lock:
            return dict(self._unpriced)

    @property
    def total(self) -> Decimal:
        """What the priced calls cost together."""
        return sum(self.by_model.values(), Decimal(0))

    def __repr__(self) -> str:
        return f"CostMeter(total={self.total}, unpriced={self.unpriced})"


def _prices() -> Callable[[str, int, int], Decimal | None]:
    """The price of so many input and output tokens of a model; None where the library knows none."""
    try:
        from genai_prices import Usage, calc_price
        from genai_prices.data_snapshot import get_snapshot
    except ImportError as error:
        raise ConfigurationError(f"CostMeter needs genai-prices: pip install genai-prices ({error})") from error
    get_snapshot()  # reads the prices now, not in the middle of a turn

    def price(model: str, input_tokens: int, output_tokens: int) -> Decimal | None:
        where, name = _place(model)
        if not name:
            return None
        try:
            usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
            return calc_price(usage, name, **where).total_price
        except (LookupError, ValueError):
            return None

    return price


def _place(model: str) -> tuple[dict[str, Any], str]:
    """Whose price list holds a model, and its name there."""
    scheme, there, rest = model.partition("://")
    if there:
        host, _, name = rest.partition("/")
        return {"provider_api_url": f"{scheme}://{host}/"}, name
    provider, _, name = model.partition(":")
    return {"provider_id": provider}, name
