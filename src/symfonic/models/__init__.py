"""Language models behind the one port, and how a declared one is found. Each family imports its SDK inside."""

import reprlib
from functools import lru_cache
from typing import cast

from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.model import Model
from symfonic.kernel.contracts.text import preview

_ACCEPTED = (
    "'offline'; 'openai:NAME'; 'langchain:PROVIDER:NAME'; a LangChain chat model object; "
    "or an object with an async complete(messages, tools)"
)
_LANGCHAIN_CHAT_MODELS = (
    ("langchain_core.language_models", "BaseChatModel"),
    ("langchain.chat_models", "_ConfigurableModel"),
)


def resolve_model(model: object) -> Model:
    """The model that a declaration names.

    An object with a callable ``complete`` comes back as it is, a LangChain chat model wrapped. Of the texts,
    ``"offline"`` is the embedded router, ``"openai:NAME"`` a model of OpenAI or of the compatible server at
    ``OPENAI_BASE_URL``, and ``"langchain:PROVIDER:NAME"`` whatever LangChain's ``init_chat_model`` makes of it;
    names may hold colons.
    Raises ConfigurationError for anything else, and for a package or key that is missing, saying what to
    install or to set.
    """
    if isinstance(model, str):
        return _named(model)
    if isinstance(model, type):
        raise ConfigurationError(f"model is the class {model.__name__}, expected an object; accepted: {_ACCEPTED}")
    if _is_langchain(type(model)):  # type: ignore[arg-type]
        from symfonic.models.langchain import LangChainModel

        return LangChainModel(model)
    if callable(getattr(model, "complete", None)):
        return cast(Model, model)
    raise ConfigurationError(f"model {reprlib.repr(model)} is none of those accepted: {_ACCEPTED}")


def _named(text: str) -> Model:
    family, _, rest = text.partition(":")
    parts = rest.split(":", 1)
    if text == "offline":
        from symfonic.models.offline import OfflineModel

        return OfflineModel()
    if family == "openai" and _is_name(rest):
        from symfonic.models.openai import OpenAIModel

        return OpenAIModel(rest)
    if family == "langchain" and len(parts) == 2 and all(map(_is_name, parts)):
        from symfonic.models.langchain import LangChainModel

        return LangChainModel.named(*parts)
    raise ConfigurationError(f"model {preview(text)} is none of those accepted: {_ACCEPTED}")


def _is_name(text: str) -> bool:
    return bool(text) and not any(map(str.isspace, text))


@lru_cache
def _is_langchain(kind: type) -> bool:
    """Read off the names of its bases: LangChain stays unimported for those who do not use it."""
    return any(
        cls.__name__ == name and f"{cls.__module__}.".startswith(f"{module}.")
        for cls in kind.__mro__
        for module, name in _LANGCHAIN_CHAT_MODELS
    )
