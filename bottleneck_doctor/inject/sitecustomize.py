"""Opens the door to bdoc's agent where asked to, then hands over to the sitecustomize it displaced."""

import os
import sys


def admit(run: str, agent: str) -> None:
    """Load the agent by its path under a private name and arm it; whatever fails stays in here."""
    try:
        from importlib.machinery import ModuleSpec, SourceFileLoader  # importlib.util would take 4 ms

        file = os.path.join(agent, "__init__.py")
        loader = SourceFileLoader("_bdoc_agent", file)
        spec = ModuleSpec("_bdoc_agent", loader, origin=file, is_package=True)
        spec.submodule_search_locations = [agent]
        module = type(sys)("_bdoc_agent")
        module.__file__, module.__path__, module.__package__ = file, [agent], "_bdoc_agent"
        module.__spec__, module.__loader__ = spec, loader
        sys.modules["_bdoc_agent"] = module
        loader.exec_module(module)
        module.arm(run)
    except BaseException:  # the user's process must start even if the agent fails
        sys.modules.pop("_bdoc_agent", None)


def _hand_over() -> None:
    """Take our folder off sys.path and run the next sitecustomize on it."""
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


if __name__ == "sitecustomize":  # and not where a process asks the agent in by itself
    if os.environ.get("BDOC_RUN") and os.environ.get("BDOC_AGENT"):
        admit(os.environ["BDOC_RUN"], os.environ["BDOC_AGENT"])
    _hand_over()
