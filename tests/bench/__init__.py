"""Benchmarks: `python -m tests.bench core` prints one table, ours against raw Pykka in the same run.

`python -m tests.bench tasks` does the same for the task layer, against LangGraph and bare asyncio.

Figures differ from machine to machine and from minute to minute, ratios less: so both sides run in turn (A B A B),
and what is judged is the median of the ratios of neighbours. `--quick` only shows that everything runs.
"""
