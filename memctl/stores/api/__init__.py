"""Stores that are reached through the methods of LangGraph's `BaseStore` alone: a server, or a Python object.

`store` and `writer` do what memctl asks of a store over the few calls of `interface`; `server` and
`base_store` are the two that there are.
"""
