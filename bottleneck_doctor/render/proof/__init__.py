"""The proof in its formats: what was tried, what it brought, and the change to make."""

from __future__ import annotations

from ...model.proof import Proof


def render_proof(
    proof: Proof, format: str, *, width: int | None = None, color: bool = False, encoding: str = "utf-8"
) -> str:
    """The proof for a terminal (a narrow one gets a block for each row), as markdown or json."""
    if format == "json":
        from ...model.codec import encode_proof

        return encode_proof(proof).decode()
    from .compose import compose

    if format == "markdown":
        from .markdown import markdown_page

        return markdown_page(compose(proof), encoding)
    from .terminal import terminal

    return terminal(compose(proof), width, color, encoding)
