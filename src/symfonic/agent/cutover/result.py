"""What a run of an agent comes to."""

from typing import Any

from symfonic.capabilities.delegation.contracts import DelegationRecord, Tally
from symfonic.kernel.contracts.facts import fact
from symfonic.kernel.contracts.messages import Message, Usage


@fact
class AgentResult:
    """A finished run: the answer, what led to it, what it cost, and where the run stands in its tree.

    ``delegations`` are this run's records in the order of the model's calls, each with its own ``children``.
    ``delegated_to`` names the children that delivered. ``usage`` is that of the whole tree below.
    """

    text: str
    delegated_to: tuple[str, ...]
    delegations: tuple[DelegationRecord, ...]
    usage: Usage
    run_id: str
    root_run_id: str
    parent_run_id: str | None
    messages: tuple[Message, ...]

    @property
    def final_response(self) -> str:
        """The answer, in the runner contract's spelling."""
        return self.text

    @property
    def tally(self) -> Tally:
        """The delegations of the whole tree, counted by outcome and by child."""
        return Tally.of(self.delegations)

    def to_dict(self) -> dict[str, Any]:
        """The run and its tree of delegations as plain values that JSON can hold (docs/records.schema.json).

        An error is told by class and safe text, a foreign child's result as far as it has a JSON form.
        """
        from symfonic.capabilities.delegation.reports import tree_dict
        from symfonic.kernel.contracts.values import plain

        return {
            "text": self.text,
            "run_id": self.run_id,
            "root_run_id": self.root_run_id,
            "parent_run_id": self.parent_run_id,
            **tree_dict(self.delegations, self.delegated_to, self.usage),
            "messages": [plain(message) for message in self.messages],
        }

    def to_json(self) -> str:
        """`to_dict` as JSON text."""
        from symfonic.capabilities.delegation.reports import json_text

        return json_text(self.to_dict())
