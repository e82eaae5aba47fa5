"""Which facts a class may inherit: one that writes a projection anew is another set than the one it inherits from."""

#: what makes a set the set it is
DEFINING = ("project", "on", "_project_rows", "_parameters", "_parameter_padding", "_bounds", "_positions")
#: what is no statement about a set; all else that ConstraintSet names is a fact that is told of a set, and believed
NO_FACTS = (
    "n_features", "redefined", "project", "contains", "preserves_support", "support_for", "require_features",
    "require_room", "_arguments",
)  # fmt: skip


def is_ours(cls: type) -> bool:
    """Whether a class is one of this library's sets."""
    return cls.__module__.startswith("ellzero.sets.")


def is_redefined(cls: type) -> bool:
    """Whether a class, an heir of one of ours, is another set."""
    return any(not is_ours(_owner(cls, name)) for name in DEFINING)


def inherited_facts(cls: type, base: type) -> list[str]:
    """The facts named by the base that a class has from a set of this library."""
    named = (name for name in vars(base) if not (name in NO_FACTS or name.startswith(("__", "_abc"))))
    return [name for name in named if is_ours(_owner(cls, name))]


def _owner(cls: type, name: str) -> type:
    """The class from which a name comes; the last of ours where none has it."""
    return next((c for c in cls.__mro__ if name in vars(c)), next(c for c in reversed(cls.__mro__) if is_ours(c)))
