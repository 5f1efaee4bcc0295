"""Opens the door to bdoc's agent where asked to, then hands over to the sitecustomize it displaced."""

import os
import sys


def _admit(run: str, agent: str) -> None:
    """Load the agent by its path under a private name and arm it; whatever fails stays in here."""
    try:
        from importlib.util import module_from_spec, spec_from_file_location

        spec = spec_from_file_location(
            "_bdoc_agent", os.path.join(agent, "__init__.py"), submodule_search_locations=[agent]
        )
        module = module_from_spec(spec)  # type: ignore[arg-type]  # None fails into the except
        sys.modules["_bdoc_agent"] = module
        spec.loader.exec_module(module)  # type: ignore[union-attr]
        module.arm(run)
    except BaseException:  # the user's process must start whatever happens to ours
        sys.modules.pop("_bdoc_agent", None)


def _hand_over() -> None:
    """Leave sys.path as it would be without us and run the sitecustomize that stood behind ours."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if not entry or os.path.abspath(entry) != here]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as missing:
        if missing.name != "sitecustomize":
            raise
    finally:
        if ours is not None:  # the import system looks our name up once more when we return
            sys.modules.setdefault("sitecustomize", ours)


if os.environ.get("BDOC_RUN") and os.environ.get("BDOC_AGENT"):
    _admit(os.environ["BDOC_RUN"], os.environ["BDOC_AGENT"])
_hand_over()
