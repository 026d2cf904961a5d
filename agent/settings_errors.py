"""What is said of a setting that is not valid."""

from typing import get_args

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails


def invalid(tree: type[BaseModel], error: ValidationError) -> str:
    """What is wrong with a tree's first wrong setting: all that its value may be instead, but never a secret."""
    errors = error.errors()
    name, field = _setting(tree, errors[0]["loc"])
    reasons = [_reason(one) for one in errors if _setting(tree, one["loc"])[0] == name]
    reason = ", or ".join([reasons[0], *(later.removeprefix("input should be ") for later in reasons[1:])])
    got = f" (got {errors[0]['input']!r})" if field is not None and _may_be_shown(field) else ""
    said_by_us = errors[0]["type"] in ("value_error", "extra_forbidden")
    return f"The setting {name} is not valid: {reason}{'' if said_by_us else got}."


def _setting(tree: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[str, FieldInfo | None]:
    """The name of the setting in which an error lies, without what pydantic adds about its type, and its field."""
    model: type[BaseModel] | None = tree
    names: list[str] = []
    field = None
    for part in loc:
        if model is None:
            break
        names.append(str(part))
        field = model.model_fields.get(str(part))
        model = section_of(field) if field else None
    return ".".join(names) or "settings", field


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a field that is a section of the tree; None for a single setting."""
    annotation = field.annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _may_be_shown(field: FieldInfo) -> bool:
    """A section's value may have a secret in it."""
    return section_of(field) is None and SecretStr not in (field.annotation, *get_args(field.annotation))


def _reason(error: ErrorDetails) -> str:
    if error["type"] == "extra_forbidden":
        return "there is no such setting"
    message = error["msg"].removeprefix("Value error, ")
    return f"{message[0].lower()}{message[1:]}"
