"""The proof in its formats: what was tried, what it brought, and the change to make."""

from __future__ import annotations

from ...model.proof import Proof

FORMATS = ("terminal", "markdown", "json")


def render_proof(
    proof: Proof, format: str, *, width: int | None = None, color: bool = False, encoding: str = "utf-8"
) -> str:
    """The proof in one of ``FORMATS``; a terminal narrower than the table gets a block for each row."""
    assert format in FORMATS, f"no format {format!r}"
    if format == "json":
        from ...model.codec import encode_proof

        return encode_proof(proof).decode()
    from .compose import compose

    if format == "markdown":
        from .markdown import markdown_page

        return markdown_page(compose(proof), encoding)
    from .terminal import DEFAULT_WIDTH, terminal

    return terminal(compose(proof), width or DEFAULT_WIDTH, color, encoding)
