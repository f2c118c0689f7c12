"""memctl: command-line administration for the long-term memory of LangGraph agents."""

__version__ = "0.1.0"
