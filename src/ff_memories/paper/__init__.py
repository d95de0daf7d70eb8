"""The paper's sections, each with what it computes, its tables, claims and figures; a module with a ``run`` is a step.

Read ``keys`` (section 3), ``values`` (section 4), ``layers`` (section 5), then ``beyond``; within each, in the order
that its docstring gives: what is computed, from tensors to tables; what the tables' columns are; what is measured from
them; what the paper claims of that; how it is drawn; and, in ``audit``, how its rows are recomputed by `verify`.
``baselines`` measures all claims without the effect; ``values.golden`` and ``keys.golden_triggers`` check checkpoints.
"""
